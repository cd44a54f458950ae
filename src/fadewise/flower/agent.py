"""The device's side: its own policy, its own backlog on its own disk, and a decision that holds."""

from __future__ import annotations

import dataclasses
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fadewise import checks
from fadewise.errors import FadewiseError, NotAllowed
from fadewise.flower.answers import Answer, refuse_warm_start, settings_of
from fadewise.flower.gains import Gain, UploadTimes
from fadewise.policies import Feedback, LocalPolicy
from fadewise.randomness import Stream, stream
from fadewise.sampling import Decision, Poisson, drawn
from fadewise.state import flatten, load_state, save_state, sync_folder


class _Memory(NamedTuple):
    """What a device remembers; on disk after every change.

    before, after: the policy's state before and after the last decision.
    round: the last decided round; -1 where there is none yet.
    gain, probability, power, takes_part: of that decision.
    asked: whether the device has been asked to send in that round without having volunteered.
    volunteered: in how many rounds it has taken part of its own accord, the last included.
    """

    before: Any
    after: Any
    round: Any
    gain: Any
    probability: Any
    power: Any
    takes_part: Any
    asked: Any
    volunteered: Any


class DeviceAgent:
    """Decides for one device of a population, as the simulator would decide for it, bit for bit.

    A decision is made once a round. It is on disk before it is told, so that a device that is killed and
    asked again gives the same answer, and its power is counted once. That holds for several processes as well, as
    when a node has been started twice: who decides holds the file, and reads it first.

    policy: the population's; the device takes its own part of what is per device.
    device: the device's number in the population, which never changes, whatever the network calls it.
    seed: the run's.
    gain: its channel gain as a function of the round (see `gains`).
    path: its file, one for each run; made in the first round.
    """

    def __init__(self, policy: LocalPolicy[Any], device: int, seed: int, gain: Gain, path: str | Path) -> None:
        checks.instance("policy", policy, LocalPolicy, "fw.Lyapunov(link, population=100, airtime_weight=100)")
        self.device = checks.whole("device", device, least=0, most=policy.population - 1)
        self.policy = policy_of_device(policy, self.device)
        self._seed = stream(seed, 0).seed
        self._settings = settings_of(policy, seed)
        if not callable(gain):
            raise NotAllowed("gain", gain, "a function of the round")
        self._gain = gain
        self._path = Path(path)
        state = self.policy.init(1)
        self._memory = _Memory(state, state, -1, 0.0, 0.0, 0.0, False, False, 0)
        self._read()

    @property
    def state(self) -> Any:
        """The policy's state, of which the arrays have length one: for `Lyapunov` the backlog."""
        return self._memory.after

    def decide(self, round: int, audited: bool = False) -> Answer:
        """The decision for a round: made when it is asked for first, the same ever after.

        audited: whether the answer also tells what it was decided from.
        """
        checks.whole("round", round, least=0)
        with self._held():
            memory = self._memory
            if round < int(memory.round):
                raise FadewiseError(
                    f"device {self.device} has decided round {int(memory.round)} of this run; round {round} is over, "
                    "and another training needs another run"
                )
            if round > int(memory.round):
                self._remember(self._decided(round))
            return self._answer(audited)

    def join(self, round: int, asked: bool) -> float:
        """The server wants this device's update; the power to send it with.

        asked: the device has not volunteered, and counts what it now spends: once, however often it is told.
        """
        with self._held():
            memory = self._memory
            last, q, power = int(memory.round), float(memory.probability), float(memory.power)
            if round != last:
                raise FadewiseError(
                    f"device {self.device} is to send in round {round}; the last that it has decided is {last}"
                )
            if asked and not memory.asked:
                one = Decision(np.array([q]), np.array([power]), self.policy.shares)
                itself = np.zeros(1, np.int64)
                feedback = Feedback(drawn(one, itself, None, asked=itself, fallback=True))
                self._remember(memory._replace(after=self.policy.observe(memory.after, feedback), asked=True))
            return power

    def uploaded(self, round: int, seconds: float) -> None:
        """The update of a round has taken so long; for a gain that is estimated from that."""
        if isinstance(self._gain, UploadTimes) and round == int(self._memory.round):
            with self._held():
                self._gain.uploaded(seconds, float(self._memory.power))

    def _decided(self, round: int) -> _Memory:
        memory = self._memory
        gain = checks.number(f"the channel gain of device {self.device} in round {round}", self._gain(round), least=0)
        decision, after = self.policy.decide(memory.after, np.array([gain]))
        takes_part = bool(Poisson.volunteers(decision, Stream(self._seed, round, self.device))[0])
        return _Memory(
            before=memory.after,
            after=after,
            round=round,
            gain=gain,
            probability=float(decision.probability[0]),
            power=float(decision.power[0]),
            takes_part=takes_part,
            asked=False,
            volunteered=int(memory.volunteered) + takes_part,
        )

    def _answer(self, audited: bool) -> Answer:
        memory = self._memory
        gain, power = float(memory.gain), float(memory.power)
        return Answer(
            device=self.device,
            round=int(memory.round),
            probability=float(memory.probability),
            power=power,
            takes_part=bool(memory.takes_part),
            volunteered=int(memory.volunteered) - bool(memory.takes_part),
            airtime_s=float(self.policy.link.airtime_s(np.array([gain]), np.array([power]))[0]),
            settings=self._settings,
            gain=gain if audited else None,
            state=tuple(float(value[0]) for value in flatten(memory.before).values()) if audited else None,
        )

    @contextmanager
    def _held(self) -> Iterator[None]:
        """With the file for this process alone, and what is in it."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = self._path.with_name(self._path.name + ".lock").open("w")
        except OSError as error:
            raise self._unkept(error) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            yield

    def _read(self) -> None:
        try:
            if self._path.exists():
                self._memory = load_state(self._path, self._memory)
        except OSError as error:
            raise self._unkept(error) from None
        except FadewiseError as error:
            raise FadewiseError(
                f"device {self.device} cannot read its backlog ({error}); remove the file to begin with none"
            ) from None

    def _remember(self, memory: _Memory) -> None:
        try:
            save_state(self._path, memory)
            sync_folder(self._path.parent)
        except OSError as error:
            raise self._unkept(error) from None
        self._memory = memory

    def _unkept(self, error: OSError) -> FadewiseError:
        return FadewiseError(
            f"device {self.device} cannot keep its backlog in {self._path.parent}: {error.strerror or error}; "
            "the folder must be one in which it may write"
        )


def policy_of_device(policy: LocalPolicy[Any], device: int) -> LocalPolicy[Any]:
    """The same policy as one device alone sees it: its own limits, its own share."""
    refuse_warm_start(policy)
    one = slice(device, device + 1)
    own = {
        field.name: checks.part(value, one)
        for field in dataclasses.fields(policy)  # type: ignore[arg-type]  # every policy is a dataclass
        if isinstance(value := getattr(policy, field.name), np.ndarray)
    }
    return dataclasses.replace(policy, link=policy.link.of_device(device), **own)  # type: ignore[type-var]
