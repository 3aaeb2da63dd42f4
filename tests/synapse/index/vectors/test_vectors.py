import threading

import pytest

from synapse.errors import EmbedderError
from synapse.index.vectors.vectors import Row, Vectors, halves, path_beside, unit

ONE, OTHER = "local/one", "ollama/other"


@pytest.fixture(params=["file", "memory"])
def vectors(request, tmp_path):
    path = str(tmp_path / "vectors.db") if request.param == "file" else ":memory:"
    found = Vectors(path)
    yield found
    found.close()


def row(seq, *vector, digest=b"text", part=0):
    return Row(seq, part, digest, vector or None)


def near(vectors, *vector, name=ONE, count=10):
    return [seq for _, seq in vectors.nearest(name, vector, count)]


def test_the_nearest_come_first_and_of_equals_the_newest(vectors):
    vectors.put(ONE, [row(1, 1, 0), row(2, 3, 4), row(3, 0, 2), row(4, 6, 8)], 4)
    assert near(vectors, 1, 0) == [1, 4, 2, 3]
    assert near(vectors, 0, 9, count=1) == [3]
    cosines = [cosine for cosine, _ in vectors.nearest(ONE, (1, 0), 10)]
    assert cosines == pytest.approx([1, 0.6, 0.6, 0], abs=1e-3)


def test_of_a_long_text_the_best_part_counts(vectors):
    vectors.put(ONE, [row(1, 0, 1), row(2, 0.1, 1), row(2, 1, 0, part=1)], 2)
    assert near(vectors, 1, 0) == [2, 1]


def test_models_are_never_mixed(vectors):
    vectors.put(ONE, [row(1, 1, 0)], 1)
    vectors.put(OTHER, [row(2, 1, 0, 0)], 2)
    assert near(vectors, 1, 0) == [1]
    assert near(vectors, 1, 0, 0, name=OTHER) == [2]
    assert near(vectors, 1, 0, name="ollama/unheard-of") == []
    assert [model[:3] for model in vectors.models()] == [(ONE, 2, 1), (OTHER, 3, 1)]
    with pytest.raises(EmbedderError, match="another model under the same name"):
        vectors.nearest(ONE, (1, 0, 0), 10)
    with pytest.raises(EmbedderError, match="another model under the same name"):
        vectors.put(ONE, [row(3, 1, 0, 0)], 3)
    assert near(vectors, 1, 0) == [1], "nothing was kept of it"


def test_what_is_missing_is_told_and_what_is_not_wanted_leaves(vectors):
    vectors.put(ONE, [row(1, 1, 0), row(2, 1, 0), row(3), row(9, 0, 1)], 9)
    vectors.put(OTHER, [row(1, 1, 0), row(2, 1, 0)], 9)
    assert near(vectors, 1, 0) == [2, 1, 9]
    wanted = {1: b"text", 3: b"text", 4: b"text"}
    assert vectors.missing(ONE, 0, 8, wanted) == [4], (
        "refused is not missing, and 9 is beyond the stretch"
    )
    assert near(vectors, 1, 0) == [1, 9], "2 is not wanted any more"
    assert near(vectors, 1, 0, name=OTHER) == [1], "by any model"
    assert vectors.missing(ONE, 0, 8, wanted | {1: b"new text"}) == [1, 4]
    assert near(vectors, 1, 0) == [9]
    assert near(vectors, 1, 0, name=OTHER) == [1], "its own turn will come"
    assert vectors.amounts(ONE) == (2, 1)
    assert vectors.amounts("never asked") == (0, 0)


def test_rows_and_the_place_reached_are_kept_together(vectors):
    vectors.put(ONE, [row(1, 1, 0)], 5)
    with pytest.raises(EmbedderError, match="without a direction"):
        vectors.put(ONE, [row(2, 1, 0), row(3, 0, 0)], 7)
    assert near(vectors, 1, 0) == [1]
    assert vectors.model(ONE).reached == 5
    vectors.rewind(ONE, 9)
    assert (vectors.model(ONE).reached, vectors.model(ONE).filed) == (0, 9)


def test_what_others_add_and_take_out_is_seen(tmp_path):
    path = str(tmp_path / "vectors.db")
    reader, writer = Vectors(path), Vectors(path)
    writer.put(ONE, [row(1, 1, 0)], 1)
    assert near(reader, 1, 0) == [1]
    for seq in range(2, 40):
        writer.put(ONE, [row(seq, 0, 1)], seq)
    assert len(near(reader, 1, 0, count=100)) == 39
    writer.missing(ONE, 0, 10, {})
    assert near(reader, 1, 0, count=100)[-1] == 11
    reader.close()
    writer.close()


def test_two_that_embed_take_turns(tmp_path):
    path, inside, most = str(tmp_path / "vectors.db"), [], []

    def section(vectors):
        def work():
            inside.append(vectors)
            most.append(len(inside))
            inside.pop()

        for _ in range(20):
            vectors.alone(work)

    opened = [Vectors(path) for _ in range(3)]
    threads = [threading.Thread(target=section, args=(each,)) for each in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in opened:
        each.close()
    assert most == [1] * 60


@pytest.mark.parametrize("vector", [(0.0, 0.0), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_a_vector_without_a_direction_is_refused(vector):
    with pytest.raises(EmbedderError, match="without a direction"):
        unit(vector)


def test_a_vector_is_kept_at_length_one_whatever_it_had():
    assert list(unit((3, 4))) == pytest.approx([0.6, 0.8])
    assert halves((3e6, 4e6)) == halves((3e-6, 4e-6))
    assert len(halves((1,) * 384)) == 768


def test_the_file_stands_beside_the_index():
    assert path_beside("w/.index/brain.db") == "w/.index/vectors.db"
    assert path_beside(":memory:") == ":memory:"
