"""The spectra of frames, which torch takes by strides of its own."""
import torch
import torch.nn.functional as F

from ._long import bare, words_of
from ._special import SPECIAL, SPECIAL_OBJECTS, by_its_body
from ._trees import mapped

WORDS = ["input", "n_fft", "hop_length", "win_length", "window", "normalized", "onesided", "return_complex",
         "align_to_window"]


def window_of(words):
    """The factors of a frame's elements, of which those beyond the window are zeros; None where all are one."""
    n, window = words["n_fft"], words.get("window")
    length = n if words.get("win_length") is None else words["win_length"]
    if length == n:
        return window
    if window is None:
        tensor = words["input"]
        window = torch.ones(length, dtype=tensor.dtype, device=tensor.device)
    below = (n - length) // 2
    return F.pad(window, [below, n - length - below])


def stft(func, args, kwargs):
    """Of what is padded already. Torch itself says of which shape and dtype the spectra are, or what is wrong."""
    words = words_of(WORDS, args, kwargs)
    if words is None or words.get("align_to_window") is not None:
        return NotImplemented
    told = func(*mapped(bare, args), **mapped(bare, kwargs))
    n, hop, window = words["n_fft"], words.get("hop_length"), window_of(words)
    frames = words["input"].unfold(-1, n, n // 4 if hop is None else hop)
    frames = frames if window is None else frames * window
    is_whole = frames.is_complex() or words.get("onesided") is False
    transform = torch.fft.fft if is_whole else torch.fft.rfft
    spectra = transform(frames, norm="ortho" if words.get("normalized") else "backward").transpose(-1, -2)
    return spectra if told.is_complex() else torch.view_as_real(spectra)


SPECIAL["stft"] = stft
SPECIAL_OBJECTS.update({
    torch.stft: by_its_body(torch.stft),
    torch.Tensor.stft: lambda func, args, kwargs: torch.stft(*args, **kwargs)
})
