import pytest

from tacit.errors import ConfigError
from tacit.tasks import MLP, Multinomial, make, names, options, registry


def test_every_name_leads_to_a_task():
    for name in names():
        assert issubclass(registry.find(name), registry.Task)
        assert "features" not in options(name)


def test_options_become_fields():
    task = make("mlp", shape=(8, 8), classes=10, hidden=[3, 4], activation="relu", l2=1)
    assert task == MLP(features=64, classes=10, hidden=(3, 4), activation="relu", l2=1.0)
    assert make("multinomial", shape=(3,), classes=2) == Multinomial(features=3, classes=2)


def test_a_name_changes_defaults_and_options_change_the_name():
    assert options("small-cnn")["filters"] == (2, 1)
    assert make("small-cnn", shape=(28, 28), classes=10, filters=[3]).filters == (3,)


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("multinomal", {}, "did you mean 'multinomial'"),
        ("zzz", {}, "choose one of"),
        ("mlp", {"hiden": [2]}, "did you mean 'hidden'"),
        ("mlp", {"hidden": 2}, "'hidden'"),
        ("mlp", {"hidden": [0]}, "above 0"),
        ("mlp", {"activation": "gelu"}, "'sigmoid'"),
        ("mlp", {"features": 3}, "no option 'features'"),
        ("multinomial", {"l2": "0.1"}, "number"),
        ("multinomial", {"l2": True}, "number"),
        ("multinomial", {"l2": -1.0}, "at least 0"),
        ("multinomial", {"l2": float("nan")}, "at least 0"),
        ("logistic", {}, "multinomial"),
        ("least-squares", {}, "3 classes"),
        ("poisson", {}, "3 classes"),
        ("quadratic", {}, "3 classes"),
        ("cox", {}, "cox-piecewise"),
        ("cox-piecewise", {}, "3 classes"),
        ("cnn", {"image": [2, 2, 1]}, "4 numbers"),
        ("cnn", {}, "padding 'same'"),
    ],
)
def test_mistakes_are_one_sentence_that_helps(name, given, says):
    with pytest.raises(ConfigError, match=says) as caught:
        make(name, shape=(3, 3), classes=3, **given)
    assert "\n" not in str(caught.value)


def test_a_classifier_needs_classes():
    with pytest.raises(ConfigError, match="at least 2 classes"):
        make("multinomial", shape=(3,), classes=0)


def test_cuts_must_increase():
    for cuts in ([2.0, 1.0], [0.0], [1.0, float("inf")], [float("nan")]):
        with pytest.raises(ConfigError, match="increasing"):
            make("cox-piecewise", shape=(3,), cuts=cuts)


def test_flat_records_need_their_image_stated():
    with pytest.raises(ConfigError, match="height, width, channels"):
        make("cifar-cnn", shape=(3072,), classes=10)
    assert make("cifar-cnn", shape=(3072,), classes=10, image=[32, 32, 3]).image == (32, 32, 3)
