"""`python -m fadewise` is `fadewise`; torchrun starts it so."""

from fadewise.cli import main

main()
