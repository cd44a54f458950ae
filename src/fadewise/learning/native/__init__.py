"""The CNN family's SGD step in C++, for CPUs: `build` compiles it, `library` calls it, `backend` trains with it."""
