"""Sounds in a loader: WAV and FLAC, excerpts, other rates, mel spectrograms; against plain numpy, and against values that
torchaudio 2.11 gave for the same samples (tests/golden/sound-1.npz)."""

import inspect
import io
import math
import random
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from format_writer import Field, Place

pytestmark = pytest.mark.every_case

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "sound-1.npz"
RATE = 22050


def tone(n=4000, channels=1, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.uniform(-0.6, 0.6, (channels, n)) + 0.3 * np.sin(np.arange(n) / 9)).astype(np.float32)


def wav(samples, rate=RATE, bits=16, real=False, extensible=False, chunks=b""):
    """(channels, n) floats as a WAV; what is stored too."""
    channels = samples.shape[0]
    if real:
        stored = samples.astype("<f4" if bits == 32 else "<f8")
        body, back = stored.T.tobytes(), stored.astype(np.float32)
    else:
        top = 2 ** (bits - 1)
        whole = np.clip(np.round(samples.astype(np.float64) * top), -top, top - 1).astype(np.int64)
        back = (whole / top).astype(np.float32)
        if bits == 8:
            body = (whole + 128).astype(np.uint8).T.tobytes()
        else:
            body = b"".join(int(v).to_bytes(bits // 8, "little", signed=True) for v in whole.T.reshape(-1))
    kind = 3 if real else 1
    fmt = struct.pack("<HHIIHH", 0xFFFE if extensible else kind, channels, rate, rate * channels * bits // 8,
                      channels * bits // 8, bits)  # fmt: skip
    if extensible:
        fmt += struct.pack("<HHI", 22, bits, 0) + struct.pack("<H", kind) + bytes(14)
    data = (
        b"WAVE" + b"fmt " + struct.pack("<I", len(fmt)) + fmt + chunks + b"data" + struct.pack("<I", len(body)) + body
    )
    return b"RIFF" + struct.pack("<I", len(data)) + data, back


@pytest.fixture
def loaded(lt, tmp_path):
    """loaded([file, …], lambda sound: sound.excerpt(9)) -> list of values, in the order of the files."""
    count = iter(range(1000))

    def run(files, make, seed=0, epoch=0, views=1, **options):
        place = tmp_path / f"ds{next(count)}"
        samples = [(b"%03d" % i, {"s": data}) for i, data in enumerate(files)]
        Place(place).write([Field("s", 1)], [samples])
        fields = {f"x{v}": make(lt.sound("s", view=v)) for v in range(views)}
        with lt.Loader(
            str(place), batch_size=len(files), fields={**fields, "k": lt.key()}, seed=seed, epoch=epoch, **options
        ) as loader:
            for batch in loader:
                *values, keys = batch
                break
            out = [
                {k: np.asarray(x[i]).copy() if hasattr(x, "shape") else bytes(x[i]) for i, k in enumerate(keys)}
                for x in values
            ]
        out = [[x[k] for k in sorted(x)] for x in out]
        return out if views > 1 else out[0]

    return run


@pytest.mark.parametrize(
    ("bits", "real", "extensible"),
    [(8, False, False), (16, False, False), (24, False, True), (32, False, False), (32, True, True), (64, True, False)],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_every_kind_of_wav_as_floats(loaded, bits, real, extensible, channels):
    data, stored = wav(tone(500, channels), bits=bits, real=real, extensible=extensible, chunks=b"LIST\3\0\0\0abc\0")
    (got,) = loaded([data], lambda s: s.channels(channels).excerpt(500))
    assert got.dtype == np.float32 and got.shape == (channels, 500)
    assert (got == stored).all()
    (ragged,) = loaded([data], lambda s: s.channels(channels))
    assert (np.frombuffer(ragged, "f4").reshape(channels, -1) == stored).all()


@pytest.mark.parametrize("stated", [0, 0xFFFFFFFF, 0x7FFFF000])
@pytest.mark.parametrize("riff", [True, False])
def test_a_wav_whose_recorder_was_killed_has_the_samples_that_are_there(loaded, stated, riff):
    data, stored = wav(tone(501, 2), chunks=b"LIST\4\0\0\0abcd")
    at = data.index(b"data") + 4
    data = data[:4] + (data[4:8] if riff else bytes(4)) + data[8:at] + struct.pack("<I", stated) + data[at + 4 :]
    for missing in (0, 1, 4, 7):  # the last sample is not whole
        (got,) = loaded([data[: len(data) - missing]], lambda s: s.channels(2))
        whole = 501 - -(-missing // 4)
        assert (np.frombuffer(got, "f4").reshape(2, -1) == stored[:, :whole]).all()


def test_a_wav_without_samples_is_none_and_no_noise(loaded):
    empty, _ = wav(tone(0))
    for after in (b"", b"LIST\4\0\0\0abcd", b"LIST\3\0\0\0abc\0id3 \2\0\0\0xy"):
        for data in (empty + after, empty[:4] + bytes(4) + empty[8:] + after):
            (got,) = loaded([data], lambda s: s.excerpt(10))
            assert not got.any()


def test_channels_are_mixed_by_their_mean_or_repeated(loaded):
    data, stored = wav(tone(300, 2))
    mono, alone = wav(tone(300, 1))
    (got,) = loaded([data], lambda s: s.excerpt(300))
    assert np.abs(got[0] - stored.mean(axis=0)).max() < 1e-7
    (got,) = loaded([mono], lambda s: s.channels(2).excerpt(300))
    assert (got == np.repeat(alone, 2, axis=0)).all()


def test_excerpts_lie_anywhere_and_follow_seed_epoch_and_view_alone(lt, loaded):
    data, stored = wav(tone(2000))
    files = [data] * 40

    def places(**options):
        views = loaded(files, lambda s: s.excerpt(100), **options)
        views = views if options.get("views", 1) > 1 else [views]
        found = []
        for view in views:
            row = []
            for x in view:
                (starts,) = np.nonzero(stored[0] == x[0, 0])
                (start,) = [s for s in starts if (stored[0, s : s + 100] == x[0]).all()]
                row.append(int(start))
            found.append(row)
        return found

    first, second = places(views=2, seed=1)
    assert first != second
    assert [first] == places(seed=1) and [first] != places(seed=2) and [first] != places(seed=1, epoch=1)
    assert min(first + second) < 300 and max(first + second) > 1600 and len(set(first + second)) > 60
    (begin,) = loaded([data], lambda s: s.excerpt(100, place="begin"))
    (middle,) = loaded([data], lambda s: s.excerpt(100, place="middle"))
    assert (begin == stored[:, :100]).all() and (middle == stored[:, 950:1050]).all()


def test_a_short_sound_is_followed_by_silence(loaded):
    data, stored = wav(tone(70))
    (got,) = loaded([data], lambda s: s.excerpt(100))
    assert (got[:, :70] == stored).all() and not got[:, 70:].any()


def resampled(x, a, b):
    """torchaudio's formula, sample by sample in double precision."""
    gcd = math.gcd(a, b)
    a, b = a // gcd, b // gcd
    base = min(a, b) * 0.99
    width = math.ceil(6 * a / base)
    n = -(-len(x) * b // a)
    padded = np.concatenate([np.zeros(width + 2), x.astype(np.float64), np.zeros(width + a + 2)])
    out = np.zeros(n)
    k = np.arange(-width, width + 2)
    for i in range(n):
        at, phase = divmod(i * a, b)
        t = np.clip((k / a - phase / a / b) * base, -6, 6)
        taps = np.sinc(t) * np.cos(t * np.pi / 12) ** 2 * base / a
        out[i] = taps @ padded[at + k + width + 2]
    return out


@pytest.mark.parametrize(("a", "b"), [(22050, 16000), (44100, 16000), (16000, 22050), (8000, 8001), (48000, 16000)])
def test_another_rate_is_that_of_the_formula_and_excerpts_are_parts_of_it(loaded, a, b):
    data, stored = wav(tone(3000), rate=a)
    want = resampled(stored[0], a, b)
    (whole,) = loaded([data], lambda s: s.resample(b))
    whole = np.frombuffer(whole, "f4")
    assert len(whole) == len(want) and np.abs(whole - want).max() < 2e-6
    (part,) = loaded([data], lambda s: s.resample(b).excerpt(500, place="middle"))
    first = (len(want) - 500) // 2
    assert (part[0] == whole[first : first + 500]).all()


@pytest.mark.parametrize(("a", "b"), [(22050, 16000), (44100, 16000), (16000, 22050), (48000, 16000)])
def test_another_rate_is_torchaudios(loaded, a, b):
    golden = np.load(GOLDEN)
    data, _ = wav(golden["x"][None], rate=a, bits=32, real=True)
    (got,) = loaded([data], lambda s: s.resample(b))
    want = golden[f"resample_{a}_{b}"]
    got = np.frombuffer(got, "f4")
    step = int(golden["step"])
    assert len(got) == int(golden[f"length_{a}_{b}"])
    assert np.abs(got[::step] - want).max() < 3e-5  # torchaudio counts phases in single precision


MELS = {
    "default": {"bands": 128},
    "small": {"bands": 64, "n_fft": 512, "hop": 160, "window": 400, "low": 50.0, "high": 8000.0},
    "slaney": {"bands": 80, "n_fft": 1024, "hop": 256, "norm": "slaney", "scale": "slaney", "power": 1.0},
}


@pytest.mark.parametrize("name", MELS)
def test_mel_spectrograms_are_torchaudios(loaded, name):
    golden = np.load(GOLDEN)
    x, want = golden["x"], golden[f"mel_{name}"]
    data, _ = wav(x[None], bits=32, real=True)
    (got,) = loaded([data], lambda s: s.resample(RATE).excerpt(len(x)).mel(**MELS[name]))
    got = got[0][:, :: int(golden["frames"])]
    assert got.shape == want.shape
    assert (np.abs(got - want) <= 1e-3 * want + 1e-6 * want.max()).all()
    (logs,) = loaded([data], lambda s: s.resample(RATE).excerpt(len(x)).mel(**MELS[name], log="ln"))
    assert np.abs(logs[0][:, :: int(golden["frames"])] - np.log(np.maximum(got, 1e-10))).max() < 1e-3
    (half,) = loaded([data], lambda s: s.resample(RATE).excerpt(len(x)).mel(**MELS[name], log="db").dtype("float16"))
    factor = 20 if MELS[name].get("power") == 1.0 else 10
    want = factor * np.log10(np.maximum(got, 1e-10))
    assert half.dtype == np.float16 and np.abs(half[0][:, :: int(golden["frames"])] - want).max() < 0.1


@pytest.mark.parametrize("n_fft", [17, 20, 64, 97, 360, 400])
def test_a_spectrogram_of_any_length_is_the_fourier_transforms(loaded, n_fft):
    data, stored = wav(tone(1000))
    (got,) = loaded([data], lambda s: s.resample(RATE).mel(7, n_fft=n_fft, hop=50))
    got = np.frombuffer(got, "f4").reshape(7, -1)
    pad = n_fft // 2
    x = np.pad(stored[0].astype(np.float64), pad, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    frames = 1 + (len(x) - n_fft) // 50
    power = np.stack([np.abs(np.fft.rfft(x[i * 50 : i * 50 + n_fft] * window)) ** 2 for i in range(frames)], axis=1)
    hz = np.linspace(0, RATE // 2, n_fft // 2 + 1)
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + (RATE // 2) / 700), 9) / 2595) - 1)
    bands = [np.minimum((hz - edges[i]) / (edges[i + 1] - edges[i]), (edges[i + 2] - hz) / (edges[i + 2] - edges[i + 1]))
             for i in range(7)]  # fmt: skip
    want = np.maximum(bands, 0) @ power
    assert got.shape == want.shape and np.abs(got - want).max() < 1e-5 * want.max()


@pytest.fixture(scope="module")
def flac():
    """A FLAC and what is in it."""
    sf = pytest.importorskip("soundfile")

    def make(samples, rate=RATE, subtype="PCM_16"):
        out = io.BytesIO()
        sf.write(out, samples.T, rate, format="FLAC", subtype=subtype)
        out.seek(0)
        return out.getvalue(), sf.read(out, dtype="float32", always_2d=True)[0].T

    return make


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
@pytest.mark.parametrize("channels", [1, 2])
def test_flac_is_what_libsndfile_reads_and_excerpts_are_parts_of_it(loaded, flac, channels, subtype):
    data, stored = flac(tone(20000, channels), subtype=subtype)
    (whole,) = loaded([data], lambda s: s.channels(channels))
    assert (np.frombuffer(whole, "f4").reshape(channels, -1) == stored).all()
    (part,) = loaded([data], lambda s: s.channels(channels).excerpt(3000, place="middle"))
    assert (part == stored[:, 8500:11500]).all()
    for x in loaded([data] * 20, lambda s: s.channels(channels).excerpt(50)):
        assert any((stored[:, i : i + 50] == x).all() for i in np.nonzero(stored[0] == x[0, 0])[0])


def test_damaged_flac_is_refused_where_it_is_damaged(lt, loaded, flac):
    data, stored = flac(tone(40000))
    bad = bytearray(data)
    bad[len(bad) * 3 // 4] ^= 0x55
    (fine,) = loaded([bytes(bad)], lambda s: s.excerpt(4000, place="begin"))
    assert (fine == stored[:, :4000]).all()
    for broken in (bytes(bad), data[: len(data) // 2]):
        with pytest.raises(lt.Error, match="FLAC"):
            loaded([broken], lambda s: s.resample(16000))


def test_cut_and_mutated_sounds_are_refused_or_read_and_never_end_the_agent(lt, loaded, flac):
    rng = random.Random(5)
    good, _ = wav(tone(600))
    for data in (good, flac(tone(600))[0]):
        files = [data[:n] for n in range(0, 60, 3)]
        for _ in range(120):
            bad = bytearray(data)
            for _ in range(rng.choice([1, 2, 6])):
                bad[rng.randrange(min(len(bad), rng.choice([44, len(bad)])))] = rng.randrange(256)
            files.append(bytes(bad))
        got = loaded([*files, good], lambda s: s.resample(8000).excerpt(200), on_error="skip")
        assert len(got) == len(files) + 1 and all(x.shape == (1, 200) for x in got)


def test_what_is_no_sound_and_what_says_it_is_huge_are_refused(lt, loaded, flac):
    data = bytearray(flac(tone(600))[0])
    data[21:26] = bytes([data[21] | 15, 255, 255, 255, 255])
    for bad, word in ((b"ID3 something", "neither WAV nor FLAC"), (b"", "no bytes"), (bytes(data), "limit")):
        with pytest.raises(lt.Error, match=word):
            loaded([bad], lambda s: s)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda s: s.mel(64), "resample"),
        (lambda s: s.resample(16000).excerpt(100).mel(64), "too short"),
        (lambda s: s.resample(16000).mel(64, high=9000), "9000"),
        (lambda s: s.resample(16000).mel(64, n_fft=400, window=500), "window"),
        (lambda s: s.dtype("uint8"), "float32"),
        (lambda s: s.excerpt(0), "samples=0"),
        (lambda s: s.excerpt(10, place="end"), "place"),
    ],
)
def test_mistakes_are_refused_when_the_loader_opens(lt, loaded, make, word):
    with pytest.raises(lt.Error, match=word):
        loaded([wav(tone(600))[0]], make)


def test_words_are_methods_with_the_tables_defaults_and_in_the_documents(run_leat):
    fields = pytest.importorskip("leat.fields")
    text = (Path(__file__).resolve().parents[2] / "docs" / "prep.md").read_text()
    owner, seen = None, 0
    for line in run_leat("image", "--sound-words", status=0).stdout.splitlines()[1:]:
        word, default, values, meaning = re.split(r"\s{2,}", line.strip(), maxsplit=3)
        name = word.partition("=")[0]
        mark = "· " if line.startswith("  ") else ""
        shown = ["" if v == "-" else v for v in (default, values)]
        assert f"| {mark}`{word}` | {shown[0]} | {shown[1]} | {meaning} |" in text, line
        if not mark:
            owner = getattr(fields.Sound, name)
            continue
        preset = inspect.signature(owner).parameters[name].default
        assert str(preset) == default or float(preset) == float(default), name
        seen += 1
    assert seen == 10
