"""Who should send and how loud: one file a policy. A new one is a file and an export line here."""

from typing import Any

from fadewise.policies.base import CentralPolicy as CentralPolicy
from fadewise.policies.base import Feedback as Feedback
from fadewise.policies.base import LocalPolicy as LocalPolicy
from fadewise.policies.base import Policy as Policy
from fadewise.policies.lyapunov import Lyapunov as Lyapunov
from fadewise.policies.uniform import Uniform as Uniform
from fadewise.policies.uniform import UniformPoisson as UniformPoisson
from fadewise.registry import exported

POLICIES: dict[str, type[Policy[Any]]] = exported(globals(), Policy)
"""Every policy by its kind, the name it has in configurations."""
