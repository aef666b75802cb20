"""New federations: keys, certificates, modes, and what a wrong request is told."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from folders import SIZES, config, make

from tacit.deployment.server.coordinator import Coordinator
from tacit.deployment.setup.folders import Wanted, make_federation
from tacit.deployment.setup.from_config import wanted
from tacit.deployment.setup.keys import make_authority, make_server
from tacit.deployment.setup.settings import Public, kind_of, load_server
from tacit.deployment.setup.site_settings import load_site
from tacit.deployment.site.site import Site
from tacit.deployment.transport.in_memory import InMemory
from tacit.errors import ConfigError
from tacit.run.config import as_toml, read_toml


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nothing_secret_is_in_two_folders_and_nobody_else_reads(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    make(folder, insecure=False)
    secrets = [folder / "authority" / "ca.key", folder / "server" / "server.key"]
    secrets += [folder / "sites" / name / k for name in SIZES for k in ("key", "signing.key")]
    contents = {path.read_bytes() for path in secrets}
    assert len(contents) == len(secrets)
    private = [p for p in folder.rglob("*") if p.is_file() and b"PRIVATE KEY" in p.read_bytes()]
    assert sorted(private) == sorted(secrets)
    assert all(mode(path) == 0o600 for path in secrets)
    assert all(mode(path) == 0o700 for path in folder.rglob("*") if path.is_dir())
    for name in SIZES:
        site = folder / "sites" / name
        assert (site / "ca.crt").read_bytes() == (folder / "server" / "ca.crt").read_bytes()
        assert (site / "key.pub").read_bytes() == (
            folder / "server" / "sites" / f"{name}.pub"
        ).read_bytes()


def test_certificates_name_the_address_and_are_signed(tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    authority = make_authority(tmp_path / "authority", "test")
    make_server(tmp_path, "hospital.example.org", authority)
    certificate = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    certificate.verify_directly_issued_by(authority[1])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "hospital.example.org" in names.get_values_for_type(x509.DNSName)
    assert "127.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP384R1)


def test_files_read_back_and_agree(tmp_path: Path) -> None:
    public = make(tmp_path / "f")
    copies = [Public.load(tmp_path / "f" / "sites" / name) for name in SIZES]
    assert {c.digest for c in copies} == {public.digest}
    assert copies[0].plan.guarantee(1e-3) == public.plan.guarantee(1e-3)
    assert load_site(tmp_path / "f" / "sites" / "north").name == "north"
    assert load_server(tmp_path / "f" / "server").wait == 300.0
    assert kind_of(tmp_path / "f") == "federation"
    readme = (tmp_path / "f" / "README.md").read_text()
    assert "`sites/north` to north (5 records)" in readme


def test_a_site_trusts_nobody_at_first(tmp_path: Path) -> None:
    make_federation(
        tmp_path / "f",
        Wanted(
            config=config({"name": "dp-fedavg"}, privacy={"epsilon": 4.0, "delta": 1e-5}),
            sites={"a": 9},
            records={"x": ["float", 2], "y": ["int32"]},
            classes=2,
        ),
    )
    policy = load_site(tmp_path / "f" / "sites" / "a").policy
    assert not (policy.trust_server or policy.inexact_noise or policy.unprotected)
    assert policy.epsilon == 6.0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("classes", 3),
        ("sites", {"north": 6, "east": 7, "south": 6}),
        ("sites", {"east": 7, "north": 5, "south": 6}),
        ("algorithm", {"name": "dp-fedavg-record", "batches": "full", "clip": 0.6}),
        ("privacy", {"noise": 0.9, "delta": 1e-3}),
        ("train", {"rounds": 4, "dtype": "float64"}),
        ("evaluation", {"error": 0.1}),
    ],
)
def test_everything_that_decides_a_release_is_in_the_digest(
    tmp_path: Path, key: str, value: Any
) -> None:
    public = make(tmp_path / "f")
    values = read_toml(tmp_path / "f" / "server" / "federation.toml")
    assert Public.from_dict(values).digest == public.digest
    assert Public.from_dict({**values, key: value}).digest != public.digest
    assert Public.from_dict({**values, "address": "10.0.0.1:9"}).digest == public.digest


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sites": {}}, r"\[sites\] must give the number of records"),
        ({"exchange": {"minimum": 4}}, "there are 3 sites: give a smaller minimum"),
        ({"records": {"x": ["double", 3]}}, "write 'float' or 'int32'"),
        ({"records": {"y": ["int32"]}}, "needs x"),
        ({"adress": "a:1"}, "did you mean 'address'"),
        ({"exchange": {"minimum": 0}}, r"\[exchange.minimum\] \(0\) of federation.toml"),
        ({"train": {"rounds": 0}}, "train.rounds"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, changes: Any, sentence: str) -> None:
    make(tmp_path / "f")
    values = read_toml(tmp_path / "f" / "server" / "federation.toml")
    with pytest.raises(ConfigError, match=sentence):
        Public.from_dict({**values, **changes})


def test_folders_are_not_overwritten_and_names_are_plain(tmp_path: Path) -> None:
    make(tmp_path / "f")
    with pytest.raises(ConfigError, match="is not empty"):
        make(tmp_path / "f")
    with pytest.raises(ConfigError, match=r"'\.\./x' is not a valid site name"):
        make(tmp_path / "g", sizes={"../x": 3})
    assert not (tmp_path / "g").exists()


COLUMNS = """
[data]
path = "nowhere"
[data.columns.age]
range = [0, 100]
[data.columns.sex]
categories = ["f", "m"]
[data.target]
column = "sick"
classes = ["no", "yes"]
[task]
name = "logistic"
[algorithm]
name = "dp-fedavg-record"
batches = "full"
[privacy]
epsilon = 4.0
delta = 1e-4
[train]
rounds = 5
"""


def test_sites_whose_data_nobody_has_seen(tmp_path: Path) -> None:
    """Names and sizes are given, shapes follow from the public meaning of the columns."""
    (tmp_path / "run.toml").write_text(COLUMNS)
    asked = wanted(config=tmp_path / "run.toml", sites="north=3,south=4", insecure=True)
    assert asked.records["y"] == ["int32"]
    make_federation(tmp_path / "f", asked)
    site = tmp_path / "f" / "sites" / "north"
    (site / "records.csv").write_text("age,sex,sick\n31,f,no\n64,m,yes\n50,m,no\n")
    opened = Site(site)
    assert opened.cost_of_new_run() == pytest.approx(4.0, abs=0.01)
    opened.close()


@pytest.mark.parametrize("text", ["north", "north=", "north=x", "north=3;south=4"])
def test_sites_are_named_with_sizes(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.toml").write_text(COLUMNS)
    with pytest.raises(ConfigError, match="write name=records"):
        wanted(config=tmp_path / "run.toml", sites=text)


def test_scales_are_released_before_round_0(tmp_path: Path) -> None:
    """One charge before the first round; a site that starts again remembers what it said."""
    scaled = COLUMNS.replace("[0, 100]", '[0, 100]\nscaling = "release"')
    (tmp_path / "run.toml").write_text(scaled.replace("rounds = 5", "rounds = 2"))
    asked = wanted(config=tmp_path / "run.toml", sites="north=3,south=3", insecure=True)
    public = make_federation(tmp_path / "f", asked)
    folders = {i: tmp_path / "f" / "sites" / name for i, name in enumerate(public.names)}
    for folder in folders.values():
        (folder / "records.csv").write_text("age,sex,sick\n31,f,no\n64,m,yes\n50,m,no\n")
    sites = InMemory(folders)

    class Restarting(InMemory):
        def ask(self, requests: Any) -> Any:
            replies = super().ask(requests)
            for index in list(self.sites):
                self.restart(index)
            return replies

    sites.__class__ = Restarting
    outcome = Coordinator(tmp_path / "f" / "server", sites).run()
    assert outcome.metrics["server/replies"] == 2
    said = json.loads((tmp_path / "f" / "server" / "run" / "scaling.json").read_text())
    assert set(said) == {"age"}
    labels = [(c.label["round"], c.label["phase"]) for c in sites.sites[0].ledger.charges]
    assert labels == [(3, "moments"), (0, "train"), (1, "train")]
    assert sites.sites[0].guarantee().epsilon <= 4.0
    sites.close()


def test_a_site_file_with_a_typo(tmp_path: Path) -> None:
    make(tmp_path / "f")
    path = tmp_path / "f" / "sites" / "north" / "site.toml"
    values = read_toml(path)
    values["policy"]["trust_sever"] = True
    path.write_text(as_toml(values))
    with pytest.raises(ConfigError, match=r"site\.toml has no key 'policy\.trust_sever'"):
        load_site(path.parent)


def run_file(folder: Path, algorithm: dict[str, Any], privacy: Any = None) -> Path:
    values = {
        "data": {
            "columns": {"age": {"range": [0, 100]}},
            "target": {"column": "ill", "classes": ["no", "yes"]},
        },
        "task": {"name": "logistic"},
        "algorithm": algorithm,
        "privacy": privacy or {"epsilon": 4.0, "delta": 1e-4},
        "train": {"rounds": 3},
    }
    (folder / "run.toml").write_text(as_toml(values))
    return folder / "run.toml"


@pytest.mark.parametrize(
    ("algorithm", "key", "chosen"),
    [
        ({"name": "auto", "protects": "record"}, "noise_at", "shares"),
        ({"name": "auto"}, "noise_at", "shares"),
        ({"name": "dp-fedavg"}, "noise_at", "shares"),
        ({"name": "dp-fedexp"}, "trust", "shares"),
        ({"name": "dp-scaffold", "protects": "client"}, "noise_at", "shares"),
        ({"name": "dp-fedavg", "noise_at": "aggregate"}, "noise_at", "aggregate"),
        ({"name": "dp-fedexp", "trust": "local"}, "trust", "local"),
        ({"name": "dp-fedavg", "cohort_rate": 0.5}, "noise_at", None),
        ({"name": "dp-fedavg-record"}, "noise_at", None),
    ],
)
def test_secure_sums_are_the_default_where_nothing_is_said(
    algorithm: dict[str, Any], key: str, chosen: str | None, tmp_path: Path
) -> None:
    config = run_file(tmp_path, algorithm)
    asked = wanted(config=config, sites="north=9,south=8,west=7")
    assert asked.config.algorithm.options.get(key) == chosen
    assert bool(asked.secured) == (chosen == "shares" and key not in algorithm)
    alone = wanted(config=config, sites="north=9")
    assert alone.config.algorithm.options.get(key) == algorithm.get(key)


def test_sites_make_their_keys_and_init_takes_the_public_halves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.cli import run as command_line

    monkeypatch.chdir(tmp_path)
    Path("public").mkdir()
    for name in ("north", "south", "west"):
        assert command_line(["site", "keys", f"own/{name}", "--name", name]) == 0
        Path(f"public/{name}.toml").write_bytes(Path(f"own/{name}/public.toml").read_bytes())
    assert command_line(["site", "keys", "own/north", "--name", "north"]) == 2
    run_file(tmp_path, {"name": "auto", "protects": "record"})
    told = ["deploy", "init", "f", "--config", "run.toml", "--keys", "public"]
    assert command_line([*told, "--sites", "north=9,south=8,west=7"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "as long as at least 2 of the 3 sites follow the protocol;" in said
    assert 'so noise_at = "shares" was added' in said
    assert "rehearsal" not in said
    assert not list(Path("f/sites").rglob("*.key"))
    Path("public/west.toml").write_text('name = "west"\n')
    told[2] = "g"
    assert command_line([*told, "--sites", "north=9,south=8,west=7"]) == 2
