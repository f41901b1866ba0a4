"""What the package's names do to a program that takes them."""

import pytest


def test_star_import_leaves_pythons_own_names_alone(lt):
    import builtins

    taken = {}
    exec("from leat import *", taken)
    taken.pop("__builtins__")
    assert not set(taken) & set(dir(builtins))
    assert {"Loader", "image", "key", "state_of"} <= set(taken)
    # … while they are there by their full names
    assert lt.int("cls")._describe("y")[:3] == ("y", 2, "cls")
    assert lt.bytes("bin")._describe("b")[:3] == ("b", 3, "bin")


@pytest.mark.parametrize("view", [-1, 256, 2**32, 1.0, "1", True, None])
def test_views_that_have_no_draws_of_their_own_are_refused(lt, view):
    with pytest.raises(lt.errors.InvalidError, match="view"):
        lt.image("png", view=view)


def test_the_last_view_works_and_draws_its_own(lt, images):
    crops = {f"v{v}": lt.image("png", view=v).random_resized_crop(8) for v in (0, 255)}
    with lt.Loader(images.url, fields=crops, batch_size=20, as_numpy=True) as loader:
        first, last = next(iter(loader))
        assert (first != last).any()
