"""Every wrong setting gets one sentence: the file, the key, what was given, what is allowed."""

import copy
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadewise as fw
from fadewise import config
from fadewise.errors import FadewiseError

TOP = "devices, link, channel, policy, sampling, access, data, model, training, rounds, seed"
LINK = "bandwidth_hz, payload_bits, peak_power, mean_power, noise_power"
PHYSICAL_LINK = (
    "bandwidth_hz, payload_bits, peak_power_w, peak_power_dbm, mean_power_w, mean_power_dbm, "
    "noise_density_w_hz, noise_density_dbm_hz"
)
LYAPUNOV = "airtime_weight, penalty_weight, variant, data_shares, warm_start_rounds"
SEED = "a whole number at least 0 and at most 18446744073709551615"
MIXED = "give all three, peak_power, mean_power and the noise, in units of one kind"
NAN, INF = float("nan"), float("inf")

NETWORK: dict[str, Any] = {
    "devices": 4,
    "link": {"bandwidth_hz": 22e6, "payload_bits": 1e6, "peak_power": 100.0, "mean_power": 1.0, "noise_power": 1.0},
    "channel": {"kind": "bounded", "inner": {"kind": "rayleigh", "mean_gain": 2.0}},
    "policy": {"kind": "lyapunov", "airtime_weight": 100.0},
    "sampling": {"kind": "poisson"},
    "access": {"kind": "tdma"},
    "rounds": 5,
}
PHYSICAL: dict[str, Any] = NETWORK | {
    "link": {
        "bandwidth_hz": 22e6,
        "payload_bits": 1e6,
        "peak_power_w": 0.1,
        "mean_power_dbm": 10.0,
        "noise_density_dbm_hz": -174.0,
    }
}
UNIFORM = {"policy.kind": "uniform", "policy.participants": 2.0}


def built(changes: dict[str, Any], settings: dict[str, Any] = NETWORK) -> fw.Experiment:
    return config.experiment(config.with_settings(settings, changes), "net.toml")


def sentence(changes: dict[str, Any], settings: dict[str, Any] = NETWORK) -> str:
    with pytest.raises(FadewiseError) as raised:
        built(changes, settings)
    return str(raised.value)


def without(settings: dict[str, Any], key: str) -> dict[str, Any]:
    result = copy.deepcopy(settings)
    *tables, last = key.split(".")
    inner = result
    for table in tables:
        inner = inner[table]
    del inner[last]
    return result


WRONG: list[tuple[dict[str, Any], str]] = [
    # The top level
    ({"devics": 3}, f"devics is not a setting; did you mean devices? allowed: {TOP}"),
    ({"foo.bar": 1}, f"foo is not a setting; allowed: {TOP}"),
    ({"airtime_weight": 5.0}, "airtime_weight is not a setting; did you mean policy.airtime_weight?"),
    ({"devices": 0}, "devices is 0; it must be a whole number at least 1 and at most 1000000000"),
    ({"devices": 10**10}, "devices is 10000000000; it must be a whole number at least 1 and at most 1000000000"),
    ({"devices": 1.5}, "devices is 1.5; it must be a whole number"),
    ({"devices": "100"}, "devices is '100'; it must be a whole number"),
    ({"devices": True}, "devices is true; it must be a whole number"),
    ({"devices": [1]}, "devices is [1]; it must be a whole number"),
    ({"rounds": 0}, "rounds is 0; it must be a whole number at least 1 and at most 1000000000"),
    ({"rounds": -3}, "rounds is -3; it must be a whole number at least 1 and at most 1000000000"),
    ({"rounds": "many"}, "rounds is 'many'; it must be a whole number"),
    ({"seed": -1}, f"seed is -1; it must be {SEED}"),
    ({"seed": 2**64}, f"seed is 18446744073709551616; it must be {SEED}"),
    ({"seed": "0-4"}, "seed is '0-4'; it must be a whole number"),
    ({"link": 3}, "link is 3; it must be a table"),
    ({"channel": "rayleigh"}, "channel is 'rayleigh'; it must be a table"),
    ({"policy": []}, "policy is []; it must be a table"),
    # The link in normalised units
    (
        {"link.bandwith_hz": 1.0},
        f"link.bandwith_hz is not a setting of link; did you mean bandwidth_hz? allowed: {LINK}",
    ),
    ({"link.in_watts": True}, f"link.in_watts is not a setting of link; allowed: {LINK}"),
    ({"link.bandwidth_hz": 0.0}, "link.bandwidth_hz is 0.0; it must be a number above 0"),
    ({"link.bandwidth_hz": "22 MHz"}, "link.bandwidth_hz is '22 MHz'; it must be a number"),
    ({"link.bandwidth_hz": [1.0]}, "link.bandwidth_hz is [1.0]; it must be a number"),
    ({"link.payload_bits": -1.0}, "link.payload_bits is -1.0; it must be a number above 0"),
    ({"link.noise_power": 0.0}, "link.noise_power is 0.0; it must be a number above 0"),
    ({"link.mean_power": NAN}, "link.mean_power is nan; it must be a number above 0"),
    # One value for each device, or for each group
    ({"link.peak_power": -0.5}, "link.peak_power is -0.5; it must be a number above 0"),
    ({"link.peak_power": [1.0, 2.0]}, "link.peak_power has values for 2 devices; there are 4"),
    ({"link.peak_power": []}, "link.peak_power has values for 0 devices; there are 4"),
    ({"link.peak_power": [1.0, 2.0, 0.0, 3.0]}, "link.peak_power of device 2 is 0.0; it must be a number above 0"),
    ({"link.peak_power": [1.0, 2.0, 3.0, NAN]}, "link.peak_power of device 3 is nan; it must be a number above 0"),
    ({"link.peak_power": [1.0, "x", 1.0, 1.0]}, "link.peak_power.1 is 'x'; it must be a number"),
    ({"link.peak_power": [{"devices": 3, "value": 1.0}]}, "link.peak_power has values for 3 devices; there are 4"),
    ({"link.peak_power": [{"devices": 0, "value": 1.0}]}, "link.peak_power.0.devices is 0; it must be at least 1"),
    (
        {"link.peak_power": [{"devices": 1.5, "value": 1.0}]},
        "link.peak_power.0.devices is 1.5; it must be a whole number",
    ),
    ({"link.peak_power": [{"devices": 4, "value": "x"}]}, "link.peak_power.0.value is 'x'; it must be a number"),
    ({"link.peak_power": [{"devices": 2, "value": 1.0}, {"devices": 2}]}, "link.peak_power.1.value is missing"),
    (
        {"link.peak_power": [{"devices": 2, "value": 1.0}, {"devices": 2, "valu": 1.0}]},
        "link.peak_power.1.valu is not a setting of a group of devices; did you mean value? allowed: devices, value",
    ),
    (
        {"link.peak_power": [{"devices": 3, "value": 1.0}, {"devices": 1, "value": -1.0}]},
        "link.peak_power of device 3 is -1.0; it must be a number above 0",
    ),
    # Both kinds of units
    (
        {"link.peak_power_w": 1.0},
        f"link has peak_power in normalised units and peak_power_w in physical ones; {MIXED}",
    ),
    (
        {"link.noise_density_dbm_hz": -174.0},
        f"link has peak_power in normalised units and noise_density_dbm_hz in physical ones; {MIXED}",
    ),
    # The channel, and the channel in it
    (
        {"channel.kind": "rayliegh"},
        "channel.kind is 'rayliegh'; it must be one of bounded, rayleigh, switched, trace; did you mean rayleigh?",
    ),
    ({"channel.kind": 3}, "channel.kind is 3; it must be one of bounded, rayleigh, switched, trace"),
    (
        {"channel.lowest_bits": 1.0},
        "channel.lowest_bits is not a setting of channel bounded; did you mean lowest_bits_per_s_hz? "
        "allowed: inner, lowest_bits_per_s_hz, highest_bits_per_s_hz",
    ),
    (
        {"channel.lowest_bits_per_s_hz": -1.0},
        "channel.lowest_bits_per_s_hz is -1.0; it must be a number at least 0 and at most 100",
    ),
    (
        {"channel.highest_bits_per_s_hz": 101.0},
        "channel.highest_bits_per_s_hz is 101.0; it must be a number above 0 and at most 100",
    ),
    (
        {"channel.lowest_bits_per_s_hz": 50.0},
        "channel.lowest_bits_per_s_hz is 50.0; it must be so low that the floor on gains is under their ceiling",
    ),
    ({"channel.inner": 3}, "channel.inner is 3; it must be a table"),
    ({"channel.inner": {}}, "channel.inner.kind is missing; it must be one of bounded, rayleigh, switched, trace"),
    ({"channel.inner.kind": "bounded"}, "channel.inner.inner is missing; it must be a table"),
    ({"channel.inner.mean_gain": 0.0}, "channel.inner.mean_gain is 0.0; it must be a number above 0"),
    ({"channel.inner.mean_gain": [1.0, 2.0]}, "channel.inner.mean_gain has values for 2 devices; there are 4"),
    (
        {"channel.inner.mean_gian": 1.0},
        "channel.inner.mean_gian is not a setting of channel.inner rayleigh; did you mean mean_gain? "
        "allowed: mean_gain",
    ),
    (
        {"channel.kind": "switched", "channel.mean_rounds_on": 0.5},
        "channel.mean_rounds_on is 0.5; it must be a number at least 1",
    ),
    ({"channel.kind": "trace"}, "channel.path is missing; it must be text"),
    ({"channel.kind": "trace", "channel.path": 3}, "channel.path is 3; it must be text"),
    (
        {"channel.kind": "trace", "channel.path": "gains.txt"},
        "channel.path is 'gains.txt'; it must be a file ending in .csv, .npz, .parquet",
    ),
    (
        {"channel.kind": "trace", "channel.path": "gains.csv", "channel.repeat": "yes"},
        "channel.repeat is 'yes'; it must be true or false",
    ),
    # The policy
    (
        {"policy.kind": "lyapunof"},
        "policy.kind is 'lyapunof'; it must be one of lyapunov, uniform, uniform-poisson; did you mean lyapunov?",
    ),
    (
        {"policy.airtime_wieght": 3.0},
        f"policy.airtime_wieght is not a setting of policy lyapunov; did you mean airtime_weight? allowed: {LYAPUNOV}",
    ),
    ({"policy.population": 4}, f"policy.population is not a setting of policy lyapunov; allowed: {LYAPUNOV}"),
    ({"policy.airtime_weight": 0.0}, "policy.airtime_weight is 0.0; it must be a number above 0"),
    ({"policy.airtime_weight": "loud"}, "policy.airtime_weight is 'loud'; it must be a number above 0"),
    ({"policy.penalty_weight": -1.0}, "policy.penalty_weight is -1.0; it must be a number above 0"),
    ({"policy.variant": "exakt"}, "policy.variant is 'exakt'; it must be one of exact, published"),
    (
        {"policy.warm_start_rounds": -1},
        "policy.warm_start_rounds is -1; it must be a whole number at least 0 and at most 100000",
    ),
    ({"policy.warm_start_rounds": 1.5}, "policy.warm_start_rounds is 1.5; it must be a whole number"),
    ({"policy.data_shares": [0.5, 0.5]}, "policy.data_shares has values for 2 devices; there are 4"),
    (
        {"policy.data_shares": [0.0, 0.5, 0.25, 0.25]},
        "policy.data_shares of device 0 is 0.0; it must be a number above 0 and at most 1",
    ),
    ({"policy.kind": "uniform"}, "policy.participants is missing; it must be a number"),
    (UNIFORM | {"policy.participants": 0.0}, "policy.participants is 0.0; it must be a number above 0"),
    (
        UNIFORM | {"policy.participants": 5.0},
        "policy.participants is 5.0; it must be at most the number of devices, 4",
    ),
    (UNIFORM | {"policy.cap_power": "yes"}, "policy.cap_power is 'yes'; it must be true or false"),
    (
        {"policy.kind": "uniform-poisson", "policy.participants": 4.5},
        "policy.participants is 4.5; it must be at most the number of devices, 4",
    ),
    (
        UNIFORM | {"sampling.kind": "systematic"},
        "policy uniform draws its participants itself; it takes no sampling but the default",
    ),
    # Sampling and access
    (
        {"sampling.kind": "poison"},
        "sampling.kind is 'poison'; it must be one of fixed, poisson, systematic, top-k; did you mean poisson?",
    ),
    (
        {"sampling.fallback": "maybe"},
        "sampling.fallback is 'maybe'; it must be one of corrected, published, none",
    ),
    (
        {"sampling.participants": 3},
        "sampling.participants is not a setting of sampling poisson; allowed: fallback",
    ),
    (
        {"sampling.kind": "top-k", "sampling.participants": 0},
        "sampling.participants is 0; it must be a whole number at least 1",
    ),
    ({"access.kind": "cdma"}, "access.kind is 'cdma'; it must be one of fdma, tdma; did you mean tdma?"),
    ({"access.overhead_s": -1.0}, "access.overhead_s is -1.0; it must be a number at least 0"),
    ({"access.overhead_s": [1.0]}, "access.overhead_s is [1.0]; it must be a number at least 0"),
    (
        {"access.compute_s": [1.0, 1.0, 1.0, -1.0]},
        "access.compute_s of device 3 is -1.0; it must be a number at least 0",
    ),
    (
        {"access.overhead": 1.0},
        "access.overhead is not a setting of access tdma; did you mean overhead_s? allowed: overhead_s, compute_s",
    ),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[said[:50] for _, said in WRONG])
def test_a_wrong_setting_gets_one_sentence(changes: dict[str, Any], said: str) -> None:
    assert sentence(changes) == f"net.toml: {said}"


WRONG_PHYSICAL: list[tuple[dict[str, Any], str]] = [
    ({"link.peak_power_w": 0.0}, "link.peak_power_w is 0.0; it must be a number above 0"),
    ({"link.peak_power_w": [1.0]}, "link.peak_power_w has values for 1 devices; there are 4"),
    ({"link.mean_power_dbm": 201.0}, "link.mean_power_dbm is 201.0; it must be a number at least -200 and at most 200"),
    (
        {"link.mean_power_dbm": [{"devices": 3, "value": 0.0}, {"devices": 1, "value": -300.0}]},
        "link.mean_power_dbm of device 3 is -300.0; it must be a number at least -200 and at most 200",
    ),
    (
        {"link.noise_density_dbm_hz": -301.0},
        "link.noise_density_dbm_hz is -301.0; it must be a number at least -300 and at most 100",
    ),
    ({"link.noise_power": 1.0}, f"link has noise_power in normalised units and peak_power_w in physical ones; {MIXED}"),
    (
        {"link.peak_power_mw": 1.0},
        f"link.peak_power_mw is not a setting of link; did you mean peak_power_w? allowed: {PHYSICAL_LINK}",
    ),
    ({"link.bandwidth_hz": -1.0}, "link.bandwidth_hz is -1.0; it must be a number above 0"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG_PHYSICAL, ids=[said[:50] for _, said in WRONG_PHYSICAL])
def test_a_wrong_physical_link_gets_one_sentence(changes: dict[str, Any], said: str) -> None:
    assert sentence(changes, PHYSICAL) == f"net.toml: {said}"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("devices", "devices is missing; it must be a whole number"),
        ("link", "link is missing; it must be a table"),
        ("channel", "channel is missing; it must be a table"),
        ("policy", "policy is missing; it must be a table"),
        ("link.bandwidth_hz", "link.bandwidth_hz is missing; it must be a number"),
        ("link.payload_bits", "link.payload_bits is missing; it must be a number"),
        ("channel.kind", "channel.kind is missing; it must be one of bounded, rayleigh, switched, trace"),
        ("channel.inner", "channel.inner is missing; it must be a table"),
        ("policy.kind", "policy.kind is missing; it must be one of lyapunov, uniform, uniform-poisson"),
        ("policy.airtime_weight", "policy.airtime_weight is missing; it must be a number"),
        ("sampling.kind", "sampling.kind is missing; it must be one of fixed, poisson, systematic, top-k"),
        ("access.kind", "access.kind is missing; it must be one of fdma, tdma"),
    ],
)
def test_a_missing_setting_is_named(key: str, said: str) -> None:
    assert sentence({}, without(NETWORK, key)) == f"net.toml: {said}"


@pytest.mark.parametrize("key", ["sampling", "access", "rounds", "link.peak_power", "link.mean_power"])
def test_what_has_a_default_may_be_left_out(key: str) -> None:
    assert built({}, without(NETWORK, key)).devices == 4


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"peak_power_w": 1.0, "peak_power_dbm": 30.0, "mean_power_w": 1.0, "noise_density_w_hz": 1e-20}, "peak_power"),
        ({"mean_power_w": 1.0, "noise_density_w_hz": 1e-20}, "peak_power"),
        ({"peak_power_w": 1.0, "noise_density_w_hz": 1e-20}, "mean_power"),
        ({"peak_power_w": 1.0, "mean_power_w": 1.0}, "noise"),
        (
            {"peak_power_w": 1.0, "mean_power_w": 1.0, "noise_density_w_hz": 1e-20, "noise_density_dbm_hz": -174.0},
            "noise",
        ),
    ],
)
def test_each_physical_quantity_is_given_once(settings: dict[str, Any], key: str) -> None:
    link = {"bandwidth_hz": 22e6, "payload_bits": 1e6} | settings
    said = sentence({"link": link})
    assert said.startswith("net.toml: ")
    assert f"{key} once, as " in said


# What follows holds what should be said where more than one wording would do.


@pytest.mark.parametrize("kind", [[1], {}])
@pytest.mark.parametrize("table", ["channel", "policy", "sampling", "access"])
def test_a_kind_that_is_a_list_or_a_table_is_refused(table: str, kind: object) -> None:
    assert sentence({f"{table}.kind": kind}).startswith(f"net.toml: {table}.kind is {kind!r}; it must be one of ")


def test_a_floor_beyond_floating_point_is_refused() -> None:
    said = sentence({"channel.lowest_bits_per_s_hz": 5000.0})
    assert said.startswith("net.toml: channel.lowest_bits_per_s_hz is 5000.0; it must be ")


def test_a_group_larger_than_memory_is_counted_not_built() -> None:
    said = sentence({"link.peak_power": [{"devices": 10**12, "value": 1.0}]})
    assert said == "net.toml: link.peak_power has values for 1000000000000 devices; there are 4"


def test_more_rounds_than_can_be_are_refused() -> None:
    assert sentence({"rounds": 10**20}).startswith("net.toml: rounds is 100000000000000000000; it must be ")


def test_infinity_is_refused_by_a_sentence_that_says_why() -> None:
    assert "finite" in sentence({"link.bandwidth_hz": INF})


@pytest.mark.parametrize("given", ["loud", {"devices": 4, "value": 1.0}])
def test_where_lists_are_allowed_the_sentence_says_so(given: object) -> None:
    said = sentence({"link.peak_power": given})
    assert said.startswith(f"net.toml: link.peak_power is {given!r}; it must be a number")
    assert "list" in said


@pytest.mark.parametrize("shares", [[0.25, 0.25, 0.25, 0.5], [{"devices": 4, "value": 0.5}], 0.5])
def test_data_shares_that_do_not_add_up_are_named_with_their_table(shares: object) -> None:
    said = sentence({"policy.data_shares": shares})
    assert said.startswith("net.toml: policy.data_shares ")
    assert "add up to 1" in said


def test_more_top_devices_than_there_are_are_refused() -> None:
    said = sentence({"sampling.kind": "top-k", "sampling.participants": 5})
    assert said.startswith("net.toml: sampling.participants is 5; it must be ")


def test_a_nearest_match_is_near() -> None:
    assert "variant?" not in sentence({"policy.participants": 3.0})


def test_a_setting_within_a_number_is_named_in_full() -> None:
    assert "link.peak_power.watts cannot be set: link.peak_power is 100.0" in sentence({"link.peak_power.watts": 1.0})


# Files


def test_a_file_is_named_in_what_is_said_of_it(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(config.preset_text("paper/cifar10-hom").replace('"lyapunov"', '"liapunov"'))
    with pytest.raises(FadewiseError) as raised:
        config.load(str(file))
    assert str(raised.value) == (
        f"{file}: policy.kind is 'liapunov'; it must be one of lyapunov, uniform, uniform-poisson; "
        "did you mean lyapunov?"
    )


def test_a_trace_is_looked_for_beside_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "gains.npz", gains=np.ones((2, 100)))
    text = config.preset_text("paper/cifar10-hom").split("[channel]")[0].replace("rounds = 3000", "rounds = 2")
    (tmp_path / "net.toml").write_text(
        text.replace("[link", '[channel]\nkind = "bounded"\ninner = {kind = "trace", path = "gains.npz"}\n[link')
        + '[policy]\nkind = "lyapunov"\nairtime_weight = 1.0\n'
    )
    assert config.load(str(tmp_path / "net.toml")).channel.inner.gains.shape == (2, 100)  # type: ignore[attr-defined]
    monkeypatch.chdir(tmp_path)
    assert config.read("net.toml")["channel"]["inner"]["path"] == "gains.npz"


def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path: Path) -> None:
    binary, broken = tmp_path / "binary.toml", tmp_path / "broken.toml"
    binary.write_bytes(b"\xff\xfe")
    broken.write_text("devices = \n")
    for source, said in [
        ("paper/cifar10-hum", "paper/cifar10-hum is neither a file nor a preset; the nearest is paper/cifar10-hom"),
        ("zzz", "zzz is neither a file nor a preset"),
        (str(tmp_path), f"{tmp_path} cannot be read: Is a directory"),
        (str(broken), f"{broken} is not valid TOML: Invalid value (at line 1, column 11)"),
        (str(binary), f"{binary} cannot be read: 'utf-8' codec can't decode byte 0xff"),
    ]:
        with pytest.raises(FadewiseError) as raised:
            config.read(source)
        assert str(raised.value).startswith(said)
        assert "\n" not in str(raised.value)


# Presets

HOM = 2.0
HET = np.array([0.08, 1.125, 2.88])
PRESETS: dict[str, tuple[int, int, list[int] | None, float | None]] = {
    # devices, parameters of the model, groups, the baseline's M
    "paper/cifar10-hom": (100, 555_178, None, None),
    "paper/cifar10-het": (100, 555_178, [10, 40, 50], None),
    "paper/femnist-hom": (3597, 444_062, None, None),
    "paper/femnist-het": (3597, 444_062, [500, 1500, 1597], None),
    "paper/mnist-by-writer-hom": (836, 430_698, None, None),
    "paper/mnist-by-writer-het": (836, 430_698, [116, 349, 371], None),
    "paper/cifar10-hom-uniform": (100, 555_178, None, 2.50),
    "paper/cifar10-het-uniform": (100, 555_178, [10, 40, 50], 2.41),
    "paper/femnist-hom-uniform": (3597, 444_062, None, 19.40),
    "paper/femnist-het-uniform": (3597, 444_062, [500, 1500, 1597], 18.62),
    "paper/mnist-by-writer-hom-uniform": (836, 430_698, None, 8.82),
    "paper/mnist-by-writer-het-uniform": (836, 430_698, [116, 349, 371], 8.38),
}


def test_the_presets_are_the_papers_networks() -> None:
    assert [name for name in config.preset_names() if name.startswith("paper/")] == sorted(PRESETS)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_is_what_its_name_says(name: str) -> None:
    devices, parameters, groups, participants = PRESETS[name]
    experiment = config.load(name)
    assert (experiment.devices, experiment.seed) == (devices, 0)
    assert experiment.rounds == (3000 if "cifar10" in name else 400 if "femnist" in name else 600)

    link = experiment.policy.link
    assert (link.bandwidth_hz, link.payload_bits) == (22e6, 32 * parameters)
    assert (link.peak_power, link.mean_power, link.noise_power, link.in_watts) == (100.0, 1.0, 1.0, False)

    assert isinstance(experiment.channel, fw.Bounded)
    assert (experiment.channel.lowest_bits_per_s_hz, experiment.channel.highest_bits_per_s_hz) == (0.25, 10.0)
    assert isinstance(experiment.channel.inner, fw.Rayleigh)
    mean_gain = experiment.channel.inner.mean_gain
    if groups is None:
        assert mean_gain == HOM
    else:
        np.testing.assert_array_equal(mean_gain, np.repeat(HET, groups))

    if participants is None:
        assert isinstance(experiment.policy, fw.Lyapunov)
        assert (experiment.policy.airtime_weight, experiment.policy.penalty_weight) == (100.0, 1000.0)
        assert (experiment.policy.variant, experiment.policy.warm_start_rounds) == ("exact", 0)
    else:
        assert isinstance(experiment.policy, fw.Uniform)
        assert (experiment.policy.participants, experiment.policy.airtime_weight) == (participants, 100.0)
        assert experiment.policy.cap_power
    assert experiment.sampling == fw.Poisson(fallback="corrected")
    assert isinstance(experiment.access, fw.TDMA)
    assert (experiment.access.overhead_s, experiment.access.compute_s) == (0.0, 0.0)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_presets_first_line_says_what_it_is(name: str) -> None:
    title, *_ = config.preset_text(name).splitlines()
    assert title.startswith("# The paper's ")
    for word, in_name in [
        ("CIFAR-10", "cifar10"),
        ("FEMNIST", "femnist"),
        ("homogeneous", "-hom"),
        ("heterogeneous", "-het"),
        ("uniform", "uniform"),
    ]:
        assert (word in title) == (in_name in name)
    assert tomllib.loads(config.preset_text(name)) == config.read(name)


@pytest.mark.parametrize("name", ["paper/cifar10", "cifar10-hom", "paper/cifar10-hom.toml"])
def test_a_preset_that_is_none_is_refused_with_the_nearest(name: str) -> None:
    with pytest.raises(FadewiseError) as raised:
        config.preset_text(name)
    assert str(raised.value) == (
        f"there is no preset {name}; the nearest is paper/cifar10-hom; `fadewise presets` lists them"
    )


# What is written on the command line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1_000", 1000),
        ("true", True),
        ("exact", "exact"),
        ("'exact'", "exact"),
        ("uniform-poisson", "uniform-poisson"),
        ("True", "True"),
        ("[1, 2]", [1, 2]),
        ("[{devices = 2, value = 0.5}]", [{"devices": 2, "value": 0.5}]),
        ("[1,", "[1,"),
        ("a b", "a b"),
    ],
)
def test_a_value_is_toml_or_else_words(text: str, value: object) -> None:
    parsed = config.parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize("text", ["policy.variant", "=1", "a=", " =1", "a= "])
def test_an_assignment_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(FadewiseError) as raised:
        config.parse_assignment(text, "--set")
    assert str(raised.value) == f"--set {text!r} must be key=value, as in --set policy.airtime_weight=10"


def test_an_assignment_is_cut_at_its_first_equals_sign() -> None:
    assert config.parse_assignment(" a.b = c=d ", "--set") == ("a.b", "c=d")


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", [3]), ("0-4", [0, 1, 2, 3, 4]), ("0-2,7", [0, 1, 2, 7]), ("5-5", [5]), (" 1 , 9 ", [1, 9])],
)
def test_seeds(text: str, seeds: list[int]) -> None:
    assert config.parse_seeds(text) == seeds


NOT_SEEDS = "it must be seeds or ranges of them, as in 0-4 or 0,3,7"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        *((text, NOT_SEEDS) for text in ("", "a", "-1", "1-", "4-0", "0-4-5", "0-4,", ",", "1.5", "²")),
        ("0,0", "it must name each seed once: repeated seeds are no evidence"),
        ("0-3,2", "it must name each seed once: repeated seeds are no evidence"),
        ("0-100000", "it must be at most 100000 seeds"),
        ("0-99999999999999", "it must be at most 100000 seeds"),
    ],
)
def test_seeds_that_are_none_are_refused(text: str, allowed: str) -> None:
    with pytest.raises(FadewiseError) as raised:
        config.parse_seeds(text)
    assert str(raised.value) == f"--seeds is {text!r}; {allowed}"


@pytest.mark.parametrize("text", [str(2**64), f"0,{2**64}", "9" * 5000])
def test_a_seed_beyond_64_bits_is_refused(text: str) -> None:
    with pytest.raises(FadewiseError, match="--seeds is "):
        config.parse_seeds(text)


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("a.b=1,2", "a.b", [1, 2]),
        ("a=0.5", "a", [0.5]),
        ("policy.variant=exact,published", "policy.variant", ["exact", "published"]),
        ("a=true,false", "a", [True, False]),
        ("a=[1,2],[3]", "a", [[1, 2], [3]]),
        ("a='x,y','z'", "a", ["x,y", "z"]),
        (" a = 1 , 2 ", "a", [1, 2]),
    ],
)
def test_a_sweep(text: str, key: str, values: list[object]) -> None:
    assert config.parse_sweep(text) == (key, values)


@pytest.mark.parametrize("text", ["policy.variant", "a=", "=1,2", "a=,", "a=nan", "a=1,nan"])
def test_a_sweep_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(FadewiseError, match=r"^--sweep .* (must be key=v|has nan among its values)"):
        config.parse_sweep(text)


def test_settings_are_changed_in_a_copy() -> None:
    before = copy.deepcopy(NETWORK)
    changed = config.with_settings(NETWORK, {"rounds": 7, "link.peak_power": 3.0, "channel.inner.mean_gain": 1.0})
    assert before == NETWORK
    assert changed["rounds"] == 7
    assert changed["link"] == NETWORK["link"] | {"peak_power": 3.0}
    assert changed["channel"] == {"kind": "bounded", "inner": {"kind": "rayleigh", "mean_gain": 1.0}}
    assert changed["policy"] == NETWORK["policy"]


def test_a_table_that_is_not_there_is_made() -> None:
    assert config.with_settings({}, {"access.kind": "fdma"}) == {"access": {"kind": "fdma"}}


def test_a_change_within_a_number_is_refused() -> None:
    with pytest.raises(FadewiseError, match=r"^rounds\.x cannot be set: rounds is 5, not a table$"):
        config.with_settings(NETWORK, {"rounds.x": 1})


@pytest.mark.parametrize("kind_first", [True, False])
def test_another_kind_keeps_the_settings_that_it_has_too(kind_first: bool) -> None:
    settings = config.with_settings(NETWORK, {"policy.penalty_weight": 10.0, "policy.variant": "published"})
    changes = {"policy.kind": "uniform", "policy.participants": 2}
    if not kind_first:
        changes = dict(reversed(changes.items()))
    changed = config.with_settings(settings, changes)
    assert changed["policy"] == {"kind": "uniform", "participants": 2, "airtime_weight": 100.0}
    assert isinstance(built({}, changed).policy, fw.Uniform)


def test_another_kind_of_channel_keeps_the_inner_one() -> None:
    changed = config.with_settings(NETWORK, {"channel.kind": "switched", "channel.mean_rounds_on": 3.0})
    assert changed["channel"] == {
        "kind": "switched",
        "inner": {"kind": "rayleigh", "mean_gain": 2.0},
        "mean_rounds_on": 3.0,
    }
    inner = config.with_settings(NETWORK, {"channel.inner.kind": "switched"})
    assert inner["channel"]["inner"] == {"kind": "switched"}


def test_another_kind_of_sampling_drops_what_it_does_not_know() -> None:
    settings = config.with_settings(NETWORK, {"sampling.fallback": "none"})
    assert config.with_settings(settings, {"sampling.kind": "systematic"})["sampling"]["fallback"] == "none"
    assert config.with_settings(settings, {"sampling.kind": "top-k"})["sampling"] == {"kind": "top-k"}


# What settings mean


def test_groups_and_lists_are_the_same_devices() -> None:
    groups = built({"link.mean_power": [{"devices": 1, "value": 0.5}, {"devices": 3, "value": 2.0}]})
    listed = built({"link.mean_power": [0.5, 2.0, 2.0, 2.0]})
    assert np.asarray(groups.policy.link.mean_power).tolist() == [0.5, 2.0, 2.0, 2.0]
    assert np.asarray(listed.policy.link.mean_power).tolist() == [0.5, 2.0, 2.0, 2.0]


def test_watts_and_dbm_give_the_same_link() -> None:
    watts = {"peak_power_w": 0.2, "mean_power_w": [0.01, 0.02, 0.04, 0.1], "noise_density_w_hz": 4e-21}
    dbm = {
        "peak_power_dbm": 10 * np.log10(200.0).item(),
        "mean_power_dbm": (10 * np.log10([10.0, 20.0, 40.0, 100.0])).tolist(),
        "noise_density_dbm_hz": 10 * np.log10(4e-18).item(),
    }
    common = {"bandwidth_hz": 22e6, "payload_bits": 1e6}
    a, b = (built({"link": common | units}).policy.link for units in (watts, dbm))
    for link in (a, b):
        assert link.in_watts
        assert link.peak_power == pytest.approx(0.2, rel=1e-12)
        np.testing.assert_allclose(link.mean_power, [0.01, 0.02, 0.04, 0.1], rtol=1e-12)
        assert link.noise_power == pytest.approx(4e-21 * 22e6, rel=1e-12)


def test_units_may_differ_between_quantities() -> None:
    link = built({}, PHYSICAL).policy.link
    assert link.peak_power == 0.1
    assert link.mean_power == pytest.approx(0.01)
    assert link.noise_power == pytest.approx(10**-17.4 * 1e-3 * 22e6)
