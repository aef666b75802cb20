import errno
import json
import os
import stat
import threading
from hashlib import sha256
from time import process_time

import pytest
from dp_accounting import dp_event
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.accounting.accountants import guarantee
from tacit.accounting.events import PureDpEvent, compose, repeated
from tacit.accounting.guarantee import Budget
from tacit.accounting.ledger import Charge, Ledger
from tacit.accounting.ledger_file import GENESIS, seal
from tacit.errors import LedgerError, TacitError

GAUSSIAN = dp_event.GaussianDpEvent(2.0)
LAPLACE = dp_event.LaplaceDpEvent(3.0)
SAMPLED = dp_event.PoissonSampledDpEvent(0.1, GAUSSIAN)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.ledger"


def create(path, **fields):
    return Ledger.create(
        path, **{"unit": "client", "relation": "add-remove", "observer": "the public", **fields}
    )


def small_ledger(path):
    with create(path, about={"run": "a"}) as ledger:
        ledger.charge_all([(GAUSSIAN, {"round": 1}), (SAMPLED, {"round": 1, "phase": "é"})])
        ledger.done(0)
        ledger.charge(GAUSSIAN, round=2)
    return path.read_bytes()


def test_a_new_ledger_says_whose_privacy_it_counts(path):
    with create(path, unit="record", relation="replace-one", about={"seed": 3}) as ledger:
        first = ledger.head
        assert ledger.spent() == dp_event.NoOpDpEvent()
        assert list(ledger.charges) == []
        assert ledger.cut is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["run.ledger"]
    again = Ledger.read(path)
    assert (again.unit, again.relation, again.observer) == ("record", "replace-one", "the public")
    assert again.about == {"seed": 3}
    assert (again.id, again.created, again.head) == (ledger.id, ledger.created, first)


def test_two_ledgers_never_share_a_head(tmp_path):
    with create(tmp_path / "a") as a, create(tmp_path / "b") as b:
        assert a.head != b.head


def test_charges_and_what_is_done_come_back(path):
    small_ledger(path)
    with Ledger.open(path) as ledger:
        assert list(ledger.charges) == [
            Charge(0, GAUSSIAN, {"round": 1}, done=True),
            Charge(1, SAMPLED, {"round": 1, "phase": "é"}, done=False),
            Charge(2, GAUSSIAN, {"round": 2}, done=False),
        ]
        assert ledger.charge(LAPLACE) == 3
        ledger.done_all([1, 1, 3, 0])
        ledger.done(1)
    assert [charge.done for charge in Ledger.read(path).charges] == [True, True, False, True]
    assert path.read_bytes().count(b'"done"') == 3


def test_charge_all_numbers_like_charge_and_an_empty_one_writes_nothing(path):
    with create(path) as ledger:
        assert ledger.charge_all([]) == []
        assert ledger.charge_all((GAUSSIAN, {"round": i}) for i in range(3)) == [0, 1, 2]
        assert ledger.charge(GAUSSIAN) == 3
        ledger.done_all([])
    assert path.read_bytes().count(b"\n") == 5


def test_the_hash_chain_can_be_checked_with_nothing_but_json_and_sha256(path):
    small_ledger(path)
    previous = "0" * 64
    for line in path.read_text().splitlines():
        body = json.loads(line)
        written = body.pop("hash")
        text = previous + json.dumps(body, separators=(",", ":"))
        assert sha256(text.encode()).hexdigest() == written
        previous = written
    assert Ledger.read(path).head == previous


def test_one_fsync_is_over_before_charges_return(path, monkeypatch):
    with create(path) as ledger:
        sizes = []
        monkeypatch.setattr(os, "fsync", lambda handle: sizes.append(os.fstat(handle).st_size))
        ledger.charge_all([(GAUSSIAN, {})] * 50)
        assert sizes == [path.stat().st_size]
        ledger.charge(GAUSSIAN)
        ledger.done(0)
        assert len(sizes) == 3
        assert sizes[-1] == path.stat().st_size


# What is spent


def test_spent_counts_equal_mechanisms_together_in_order_of_appearance(path):
    with create(path) as ledger:
        ledger.charge(LAPLACE)
        assert ledger.spent() == LAPLACE
        ledger.charge(GAUSSIAN)
        ledger.charge(dp_event.SelfComposedDpEvent(LAPLACE, 4))
        ledger.charge(dp_event.NoOpDpEvent())
        ledger.charge(dp_event.SelfComposedDpEvent(dp_event.ComposedDpEvent([SAMPLED, LAPLACE]), 2))
        expected = dp_event.ComposedDpEvent(
            [repeated(LAPLACE, 7), GAUSSIAN, dp_event.SelfComposedDpEvent(SAMPLED, 2)]
        )
        assert ledger.spent() == expected
        ledger.done_all(range(5))
        assert ledger.spent() == expected
    assert Ledger.read(path).spent() == expected


def test_events_that_differ_in_the_last_bit_stay_apart(path):
    with create(path) as ledger:
        for noise in (0.1 + 0.2, 0.3, 0.30000000000000004):
            ledger.charge(dp_event.GaussianDpEvent(noise))
        assert ledger.spent() == dp_event.ComposedDpEvent(
            [
                dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(0.1 + 0.2), 2),
                dp_event.GaussianDpEvent(0.3),
            ]
        )


def test_the_guarantee_is_that_of_all_charges(path):
    with create(path, observer="the server") as ledger:
        ledger.charge_all([(GAUSSIAN, {"round": i}) for i in range(10)])
        found = ledger.guarantee(1e-5)
    told = {"unit": "client", "relation": "add-remove", "observer": "the server"}
    assert found == guarantee(repeated(GAUSSIAN, 10), delta=1e-5, **told)
    assert found.epsilon > guarantee(repeated(GAUSSIAN, 9), delta=1e-5, **told).epsilon


def test_would_exceed_turns_true_where_the_budget_ends(path):
    told = {"unit": "client", "relation": "add-remove", "observer": "the public"}
    enough = guarantee(repeated(GAUSSIAN, 3), delta=1e-5, **told).epsilon
    with create(path) as ledger:
        for _ in range(3):
            assert not ledger.would_exceed(GAUSSIAN, Budget(enough, 1e-5))
            ledger.charge(GAUSSIAN)
        assert ledger.would_exceed(GAUSSIAN, Budget(enough, 1e-5))
        assert not ledger.would_exceed(dp_event.NoOpDpEvent(), Budget(enough, 1e-5))
        assert ledger.would_exceed(dp_event.NonPrivateDpEvent(), Budget(1e9, 0.5))
        assert len(list(ledger.charges)) == 3
        with pytest.raises(LedgerError, match="cannot hold"):
            ledger.would_exceed(dp_event.ZCDpEvent(0.1), Budget(1.0, 1e-5))


# Labels


def test_find_takes_every_charge_that_holds_the_values(path):
    with create(path) as ledger:
        ledger.charge(GAUSSIAN, run="a", round=1, phase="step", attempt=0)
        ledger.charge(GAUSSIAN, run="a", round=1, phase="step", attempt=1)
        ledger.charge(GAUSSIAN, run="b", round=1)
        assert ledger.find(run="a", round=1) == [0, 1]
        assert ledger.find(round=1) == [0, 1, 2]
        assert ledger.find(round=1, attempt=1) == ledger.find(attempt=1, round=1) == [1]
        assert ledger.find(round=2) == ledger.find(color="red") == []
        assert ledger.find() == [0, 1, 2]
        ledger.charge(GAUSSIAN, run="a", round=2)
        assert ledger.find(round=2) == [3]
        ledger.find(round=2).append(99)
        assert ledger.find(round=2) == [3]
    assert Ledger.read(path).find(run="a", round=1) == [0, 1]


def test_find_tells_one_from_true_and_from_a_float(path):
    with create(path) as ledger:
        ledger.charge_all((GAUSSIAN, {"x": x}) for x in (1, True, 1.0, "1", None))
        for number, x in enumerate((1, True, 1.0, "1", None)):
            assert ledger.find(x=x) == [number]


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(1 - 2**64, 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.text(max_size=12), scalars, max_size=5), max_size=8))
def test_any_label_comes_back(tmp_path, labels):
    path = tmp_path / "labels.ledger"
    path.unlink(missing_ok=True)
    with create(path) as ledger:
        ledger.charge_all((GAUSSIAN, label) for label in labels)
        before = [charge.label for charge in ledger.charges]
    again = Ledger.read(path)
    assert before == labels
    assert [repr(charge.label) for charge in again.charges] == [repr(label) for label in labels]
    for number, label in enumerate(labels):
        assert number in again.find(**label)


@pytest.mark.parametrize("extreme", [5e-324, 1.7976931348623157e308, 0.00012345678901234567, -0.0])
def test_extreme_floats_are_labels(path, extreme):
    with create(path) as ledger:
        ledger.charge(GAUSSIAN, x=extreme)
    assert repr(Ledger.read(path).get(0).label["x"]) == repr(extreme)


@pytest.mark.parametrize(
    "label", [{"x": [1]}, {"x": float("nan")}, {"x": 2**64}, {"x": b"a"}, {1: "x"}, ["x"], None]
)
def test_other_labels_are_refused_before_anything_is_written(path, label):
    with create(path) as ledger:
        before = path.read_bytes()
        with pytest.raises(LedgerError, match=r"the label .*\.$"):
            ledger.charge_all([(GAUSSIAN, {}), (GAUSSIAN, label)])
        assert path.read_bytes() == before
        assert ledger.charge(GAUSSIAN) == 0


def test_events_off_the_list_are_refused_before_anything_is_written(path):
    with create(path) as ledger:
        before = path.read_bytes()
        with pytest.raises(LedgerError, match="cannot hold the event"):
            ledger.charge_all([(GAUSSIAN, {}), (dp_event.ZCDpEvent(0.1), {})])
        assert path.read_bytes() == before
        assert ledger.charge(PureDpEvent(1.0)) == 0


@pytest.mark.parametrize("number", [-1, 1, True, "0", None, 0.0])
def test_only_a_charge_that_is_there_can_be_done(path, number):
    with create(path) as ledger:
        ledger.charge(GAUSSIAN)
        with pytest.raises(LedgerError, match="has no charge"):
            ledger.done(number)
        with pytest.raises(LedgerError, match="has no charge"):
            ledger.get(number)
        ledger.done(0)


# Creating, opening, closing


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit": "person"},
        {"relation": "add"},
        {"observer": ""},
        {"observer": "two\nlines"},
        {"observer": 3},
        {"about": {"x": [1]}},
    ],
)
def test_a_wrong_header_is_refused_and_leaves_no_file(path, wrong):
    with pytest.raises(TacitError):
        create(path, **wrong)
    assert list(path.parent.iterdir()) == []


def test_a_ledger_is_never_overwritten(path):
    before = small_ledger(path)
    with pytest.raises(LedgerError, match="already exists"):
        create(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("opening", [Ledger.open, Ledger.read])
def test_a_missing_ledger_and_a_folder_are_said_to_be_so(tmp_path, opening):
    with pytest.raises(LedgerError, match="there is no"):
        opening(tmp_path / "none.ledger")
    with pytest.raises(LedgerError, match="directory"):
        opening(tmp_path)
    with pytest.raises(LedgerError, match="there is no"):
        create(tmp_path / "none" / "run.ledger")


@pytest.mark.parametrize("content", [b"", b"{", b"hello\n", b"\n", b"\x00" * 100 + b"\n"])
@pytest.mark.parametrize("opening", [Ledger.open, Ledger.read])
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(path, opening, content):
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"not a ledger|at line 1"):
        opening(path)
    assert path.read_bytes() == content


def test_a_closed_ledger_and_a_reader_do_not_write(path):
    with create(path) as ledger:
        ledger.charge(GAUSSIAN)
    ledger.close()
    with pytest.raises(LedgerError, match="is closed"):
        ledger.charge(GAUSSIAN)
    with pytest.raises(LedgerError, match="reading only"):
        Ledger.read(path).charge(GAUSSIAN)
    with pytest.raises(LedgerError, match="reading only"):
        Ledger.read(path).done(0)
    assert ledger.spent() == GAUSSIAN


def test_one_writer_at_a_time_but_any_number_of_readers(path):
    with create(path) as ledger:
        ledger.charge(GAUSSIAN)
        with pytest.raises(LedgerError, match="another process is writing"):
            Ledger.open(path)
        assert Ledger.read(path).spent() == GAUSSIAN
        ledger.charge(GAUSSIAN)
    Ledger.open(path).close()


def test_threads_can_share_a_ledger(path):
    with create(path) as ledger:
        taken = []

        def work(name):
            taken.extend(ledger.charge(GAUSSIAN, thread=name, round=i) for i in range(20))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(taken) == list(range(80))
    assert Ledger.read(path).spent() == repeated(GAUSSIAN, 80)


# Damage


def test_a_torn_last_line_is_cut_off_and_reported(path):
    whole = small_ledger(path)
    last = whole.rfind(b"\n", 0, -1) + 1
    for end in range(last + 1, len(whole)):
        path.write_bytes(whole[:end])
        assert Ledger.read(path).spent() == compose(GAUSSIAN, SAMPLED)
        assert path.read_bytes() == whole[:end]
        with Ledger.open(path) as ledger:
            assert ledger.cut == end - last
            assert path.read_bytes() == whole[:last]
            assert ledger.spent() == compose(GAUSSIAN, SAMPLED)
        with Ledger.open(path) as ledger:
            assert ledger.cut is None


def test_a_ledger_goes_on_after_a_cut(path):
    whole = small_ledger(path)
    path.write_bytes(whole + b'{"kind":"charge","id":3,"eve')
    with Ledger.open(path) as ledger:
        assert ledger.charge(LAPLACE, after="crash") == 3
    assert Ledger.read(path).find(after="crash") == [3]


def test_a_label_that_looks_like_a_line_end_does_not_confuse_the_cut(path):
    with create(path) as ledger:
        size = path.stat().st_size
        ledger.charge(GAUSSIAN, hash=ledger.head)
    whole = path.read_bytes()
    for end in range(size + 1, len(whole)):
        path.write_bytes(whole[:end])
        with Ledger.open(path) as ledger:
            assert ledger.cut == end - size


@pytest.mark.parametrize("flip", [0x01, 0xFF])
def test_any_single_changed_byte_is_refused_with_its_line(path, flip):
    whole = small_ledger(path)
    for at in range(len(whole)):
        hurt = bytearray(whole)
        hurt[at] ^= flip
        path.write_bytes(hurt)
        line = whole[:at].count(b"\n") + 1
        for opening in (Ledger.open, Ledger.read):
            with pytest.raises(LedgerError, match=rf"run\.ledger is damaged at line {line}:"):
                opening(path)
        assert path.read_bytes() == hurt


def test_a_moved_removed_or_repeated_line_is_refused(path):
    lines = small_ledger(path).splitlines(keepends=True)
    count = len(lines)
    for i in range(count - 1):
        path.write_bytes(b"".join(lines[:i] + lines[i + 1 :]))
        with pytest.raises(LedgerError, match=rf"at line {i + 1}:"):
            Ledger.open(path)
        swapped = [*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]]
        path.write_bytes(b"".join(swapped))
        with pytest.raises(LedgerError, match=rf"at line {i + 1}:"):
            Ledger.open(path)
    for i in range(count):
        path.write_bytes(b"".join(lines[: i + 1] + lines[i:]))
        with pytest.raises(LedgerError, match=rf"at line {i + 2}:"):
            Ledger.open(path)


def test_lines_missing_from_the_end_show_against_a_kept_head(path):
    whole = small_ledger(path)
    ledger = Ledger.read(path)
    kept = ledger.head
    heads = [json.loads(line)["hash"] for line in whole.splitlines()]
    assert all(ledger.contains(head) for head in heads)
    assert heads[-1] == kept
    path.write_bytes(whole[: whole.rfind(b"\n", 0, -1) + 1])
    shorter = Ledger.read(path)
    assert not shorter.contains(kept)
    assert shorter.contains(heads[-2])
    assert not shorter.contains("")


def forged(path, *bodies):
    """Lines with sound hashes and other content: only the book can refuse them."""
    whole = small_ledger(path)
    previous = json.loads(whole.splitlines()[-1])["hash"].encode()
    for body in bodies:
        line, previous = seal(body, previous)
        whole += line
    path.write_bytes(whole)


EVENT = b'{"name":"gaussian","noise_multiplier":2.0}'


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b'{"kind":"refund","id":0}',
        b'{"kind":"done","id":9}',
        b'{"kind":"done","id":0}',
        b'{"kind":"done","id":-1}',
        b'{"kind":"done","id":1,"x":1}',
        b'{"kind":"charge","id":4,"event":%b,"label":{}}' % EVENT,
        b'{"kind":"charge","id":03,"event":%b,"label":{}}' % EVENT,
        b'{"kind":"charge","id":3,"event":%b}' % EVENT,
        b'{"kind":"charge","id":3,"event":%b,"label":{"x":[]}}' % EVENT,
        b'{"kind":"charge","id":3,"event":%b,"label":{"x":NaN}}' % EVENT,
        b'{"kind":"charge","id":3,"event":%b,"label":{"x":01}}' % EVENT,
        b'{"kind":"charge","id":3,"event":%b,"label":{"x":1"y":2}}' % EVENT,
        b'{"kind":"charge","id":3,"event":%b,"label":{"x":1,}}' % EVENT,
        b'{"kind":"charge","id":3,"event":%b,"label":{"x":"\xff"}}' % EVENT,
        b'{"kind":"charge","id":3,"event":{"name":"gaussian"},"label":{}}',
        b'{"kind":"charge","id":3,"event":{"name":"os.system"},"label":{}}',
        b'{"kind":"charge","id":3,"event":{]},"label":{}}',
        b'{"kind":"charge","id":3,"event":{"a":' + b"[" * 9000 + b'},"label":{}}',
        b'{"kind":"charge","id":3,"event":{"name":"gaussian","noise_multiplier":2},"label":{}}',
        b'{"kind":"charge","id":3,"event":{"name":"gaussian","noise_multiplier":NaN},"label":{}}',
    ],
)
def test_a_line_that_no_ledger_writes_is_refused_even_with_a_sound_hash(path, body):
    forged(path, b'{"kind":"done","id":2}', body)
    with pytest.raises(LedgerError, match=r"at line 7: .*undamaged copy"):
        Ledger.open(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "version 2"),
        ({"unit": "person"}, "unit"),
        ({"relation": []}, "relation"),
        ({"observer": ""}, "observer"),
        ({"about": 3}, "about"),
        ({"extra": 1}, "fields"),
        ({"kind": "charge"}, "first line"),
    ],
)
def test_a_header_that_no_ledger_writes_is_refused(path, change, reason):
    small_ledger(path)
    header = json.loads(path.read_bytes().splitlines()[0])
    del header["hash"]
    body = json.dumps({**header, **change}, separators=(",", ":")).encode()
    path.write_bytes(seal(body, GENESIS)[0])
    with pytest.raises(LedgerError, match=rf"at line 1: .*{reason}"):
        Ledger.open(path)


# A disk that fails, a hand that meddles


@pytest.mark.parametrize("written", [0, 1, 40])
def test_a_full_disk_closes_the_ledger_and_claims_nothing(path, monkeypatch, written):
    with create(path) as ledger:
        ledger.charge(GAUSSIAN, round=1)
        before = path.read_bytes()
        file = ledger._file._file

        class Full:
            closed = False

            def write(self, data):
                if self.closed:
                    raise AssertionError("written after a failure")
                if file.tell() == len(before) and written:
                    return file.write(data[:written])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            def fileno(self):
                return file.fileno()

            def close(self):
                self.closed = True
                file.close()

        monkeypatch.setattr(ledger._file, "_file", Full())
        with pytest.raises(LedgerError, match="No space left"):
            ledger.charge(GAUSSIAN, round=2)
        with pytest.raises(LedgerError, match="is closed"):
            ledger.charge(GAUSSIAN, round=3)
        assert ledger.spent() == GAUSSIAN
        assert ledger.find(round=2) == []
    assert path.read_bytes()[: len(before)] == before
    with Ledger.open(path) as again:
        assert again.cut == (written or None)
        assert again.charge(GAUSSIAN, round=2) == 1


def test_a_failed_fsync_leaves_the_charge_spent_but_not_returned(path, monkeypatch):
    with create(path) as ledger:

        def fail(handle):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fail)
            with pytest.raises(LedgerError, match="Input/output error"):
                ledger.charge(GAUSSIAN)
        with pytest.raises(LedgerError, match="is closed"):
            ledger.charge(GAUSSIAN)
    assert Ledger.read(path).spent() == GAUSSIAN


def test_an_interrupt_during_the_write_does_not_leave_a_ledger_out_of_step(path, monkeypatch):
    with create(path) as ledger:

        def interrupt(handle):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", interrupt)
            with pytest.raises(KeyboardInterrupt):
                ledger.charge(GAUSSIAN)
        with pytest.raises(LedgerError, match="is closed"):
            ledger.charge(GAUSSIAN)
    with Ledger.open(path) as again:
        assert again.charge(GAUSSIAN) == 1


def test_a_ledger_changed_or_removed_by_someone_else_takes_no_charge(path):
    with create(path) as ledger:
        with path.open("ab") as other:
            other.write(b"x")
        with pytest.raises(LedgerError, match="another program changed"):
            ledger.charge(GAUSSIAN)
    path.unlink()
    with create(path) as ledger:
        path.unlink()
        with pytest.raises(LedgerError, match="another program changed"):
            ledger.charge(GAUSSIAN)


# Speed


def test_20_000_charges_open_quickly_and_are_found(path):
    with create(path) as ledger:
        for start in range(0, 20_000, 10_000):
            numbers = ledger.charge_all(
                (SAMPLED, {"run": "a", "round": round_, "phase": "step", "attempt": 0})
                for round_ in range(start, start + 10_000)
            )
            ledger.done_all(numbers)
    seconds = []
    for _ in range(3):  # the best of three: a busy machine says nothing about the ledger
        start_time = process_time()
        opened = Ledger.open(path)
        seconds.append(process_time() - start_time)
        opened.close()
        if seconds[-1] < 0.4:
            break
    assert min(seconds) < 0.4
    assert opened.spent() == repeated(SAMPLED, 20_000)
    assert opened.find(run="a", round=17_777, phase="step", attempt=0) == [17_777]
    start_time = process_time()
    for round_ in range(1000):
        opened.find(run="a", round=round_, phase="step", attempt=0)
    assert process_time() - start_time < 1


def test_reading_reports_a_torn_last_line_and_leaves_it_in_place(tmp_path):
    path = tmp_path / "ledger.jsonl"
    with Ledger.create(path, unit="client", relation="add-remove", observer="all") as ledger:
        ledger.charge(dp_event.GaussianDpEvent(1.0), round=0)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"charge"')
    assert Ledger.read(path).cut == len(b'{"kind":"charge"')
    assert path.read_bytes() == whole + b'{"kind":"charge"'
    path.write_bytes(whole)
    assert Ledger.read(path).cut is None
