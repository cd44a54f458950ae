"""fadewise: device scheduling for federated learning over wireless links.

Each round it says who sends, how loud, and what each update then counts for.
"""

from collections.abc import Mapping
from typing import Any

from fadewise.access import FDMA as FDMA
from fadewise.access import TDMA as TDMA
from fadewise.channels import Bounded as Bounded
from fadewise.channels import Channel as Channel
from fadewise.channels import Rayleigh as Rayleigh
from fadewise.channels import Switched as Switched
from fadewise.channels import Trace as Trace
from fadewise.errors import FadewiseError as FadewiseError
from fadewise.link import Link as Link
from fadewise.planning import Plan as Plan
from fadewise.planning import plan as plan
from fadewise.policies import CentralPolicy as CentralPolicy
from fadewise.policies import Feedback as Feedback
from fadewise.policies import LocalPolicy as LocalPolicy
from fadewise.policies import Lyapunov as Lyapunov
from fadewise.policies import Policy as Policy
from fadewise.policies import Uniform as Uniform
from fadewise.policies import UniformPoisson as UniformPoisson
from fadewise.randomness import Stream as Stream
from fadewise.rounds import Experiment as Experiment
from fadewise.rounds import Round as Round
from fadewise.rounds import begin as begin
from fadewise.rounds import play as play
from fadewise.rounds import play_all as play_all
from fadewise.sampling import Decision as Decision
from fadewise.sampling import Draw as Draw
from fadewise.sampling import FixedSize as FixedSize
from fadewise.sampling import Poisson as Poisson
from fadewise.sampling import Systematic as Systematic
from fadewise.sampling import TopK as TopK
from fadewise.sampling import draw as draw
from fadewise.simulation import simulate as simulate
from fadewise.state import load_state as load_state
from fadewise.state import save_state as save_state


def load(source: str, changes: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of a preset or a TOML file, with some settings changed, as in {"policy.airtime_weight": 10.0}."""
    from fadewise import config  # with pydantic, which takes longer than all of the above

    return config.load(source, changes)


__version__ = "0.1.0"
