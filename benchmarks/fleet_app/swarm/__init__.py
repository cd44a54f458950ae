"""A fleet whose devices train nothing: what is measured is the exchange."""

import fadewise as fw

PARTICIPANTS = 5.0


def experiment(nodes: int, numbers: int) -> fw.Experiment:
    """As many take part on average, however many nodes there are."""
    policy = fw.UniformPoisson(fw.Link(22e6, 32 * numbers), nodes, participants=min(PARTICIPANTS, nodes))
    return fw.Experiment(nodes, fw.Rayleigh(2.0), policy)
