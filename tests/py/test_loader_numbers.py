"""Numbers that do not fit are refused by name, wherever they are said: none is cut off."""

import pytest

B = 2**32


@pytest.mark.parametrize(
    "said",
    [
        *({name: value} for name in ("batch_size", "slots", "window", "threads") for value in (B + 8, 2**64 + 8, -1)),
        *({name: value} for name in ("epoch", "seed", "ram", "cache") for value in (2**63, 2**64 + (1 << 30), -1)),
        {"timeout": 2**64},
        {"timeout": 1e300},
        {"linger": 2**40},
        {"rank": B, "world_size": B + 1},
        {"rank": 0, "world_size": B + 1},
    ],
    ids=str,
)
def test_settings(lt, images, said):
    with pytest.raises(lt.errors.InvalidError) as caught:
        lt.Loader(images.url, fields={"i": lt.index()}, **{"batch_size": 8, **said})
    for name in said:
        assert name in str(caught.value) or said["rank"] == 0


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"RANK": B, "WORLD_SIZE": B + 1}, "rank"),
        ({"RANK": 0, "WORLD_SIZE": B + 1}, "world_size"),
        ({"RANK": 0, "WORLD_SIZE": 1, "LOCAL_WORLD_SIZE": B + 1, "MASTER_ADDR": "x"}, "local_world_size"),
    ],
)
def test_variables_of_launchers(lt, images, monkeypatch, variables, name):
    for variable, value in variables.items():
        monkeypatch.setenv(variable, str(value))
    with pytest.raises(lt.errors.InvalidError, match=name):
        next(iter(lt.Loader(images.url, batch_size=8, fields={"i": lt.index()})))


def test_calls(lt, images):
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}, as_numpy=True) as loader:
        before = loader.state_dict()
        stream = before["streams"][0]
        for call in (
            lambda: loader.set_epoch(2**63),
            lambda: loader.set_epoch(2**64 + 1),
            lambda: loader.seek(0, 2**64),
            lambda: loader.seek(0, B + 8),
            lambda: loader.seek(2**64, 0),
            lambda: loader.load_state_dict({**before, "streams": [{**stream, "position": B + 8}]}),
            lambda: loader.load_state_dict({**before, "streams": [{**stream, "position": 2**64 + 8}]}),
            lambda: loader.load_state_dict({**before, "streams": [{**stream, "epoch": 2**64}]}),
        ):
            with pytest.raises(lt.errors.InvalidError):
                call()
        for join in ((B, B + 1, None), (0, B + 1, None), (0, 2, [B, 1]), (0, 2, [0, 2**64])):
            with pytest.raises(OverflowError):
                loader._core.join(*join)
        assert loader.state_dict() == before


def test_mixing(leat):
    mix = leat.BatchMix(10, mixup=0.5, seed=2**63)
    for arguments in ((2**64, 0, 8, 8), (0, 2**64, 8, 8), (0, 0, B + 8, 8), (0, 0, 8, B + 8), (-1, 0, 8, 8)):
        with pytest.raises(leat.errors.InvalidError):
            mix.draw(*arguments)
    for seed in (2**64, -1):
        with pytest.raises(leat.errors.InvalidError):
            leat.BatchMix(10, mixup=0.5, seed=seed)
