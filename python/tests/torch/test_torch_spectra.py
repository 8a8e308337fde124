"""Spectra of frames, and Fourier transforms as torch has them below its autograd, on any layout beside those of one
process."""
import itertools
import unittest
import warnings

from torch_ranks import DEVICE, AgainstTorch, Replicate, Shard, full, layouts, numbers, on_ranks, spread, torch

aten = torch.ops.aten
WINDOW = torch.hann_window(6, dtype=torch.float64, device=DEVICE) + 0.25


def parts(spectra):
    return torch.view_as_real(spectra.resolve_conj())


FRAMES = {
    "all by default": lambda x: parts(torch.stft(x, 6, return_complex=True)),
    "a window": lambda x: parts(torch.stft(x, 6, 2, window=WINDOW, return_complex=True)),
    "a method": lambda x: parts(x.stft(6, 4, 6, WINDOW, center=False, return_complex=True)),
    "a short window": lambda x: parts(torch.stft(x, 9, 3, 6, WINDOW, pad_mode="constant", return_complex=True)),
    "none, but short": lambda x: parts(torch.stft(x, 7, 3, 4, normalized=True, return_complex=True)),
    "both sides": lambda x: parts(torch.stft(x, 5, 1, onesided=False, return_complex=True)),
    "no complex numbers": lambda x: torch.stft(x, 8, return_complex=False),
    "of complex numbers": lambda x: parts(torch.stft(torch.complex(x, x * 2), 6, center=False, return_complex=True)),
    "there and back": lambda x: torch.istft(torch.stft(x, 6, 2, window=WINDOW, return_complex=True), 6, 2,
                                            window=WINDOW, length=x.shape[-1]),
}

CALLS = {
    "of complex numbers": lambda c, r, dims, scale, way: aten._fft_c2c(c, dims, scale, way),
    "of real ones": lambda c, r, dims, scale, way: aten._fft_r2c(r, dims, scale, way),
    "to real ones": lambda c, r, dims, scale, way: aten._fft_c2r(c, dims, scale, 2 * c.shape[dims[-1]] - 1 - way),
}


class Spectra(AgainstTorch):
    def setUp(self):
        super().setUp()
        warnings.simplefilter("ignore")  # torch warns of windows that are not given, and of pairs of real numbers

    @on_ranks(1, 2, 3)
    def test_frames(self, mesh):
        for shape in (23, ), (3, 20):
            X = numbers(*shape)
            cut = [spread(X, mesh, Shard(dim)) for dim in range(X.ndim)] + [spread(X, mesh, Replicate())]
            for (name, f), x in itertools.product(FRAMES.items(), cut):
                self.same(f, (X, ), (x, ), (name, shape, x.placements))
        self.stays()

    @on_ranks(2)
    def test_a_window_alone_is_laid_out(self, mesh):
        X, window = numbers(3, 20), spread(WINDOW, mesh, Shard(0))
        self.same(lambda x, w: torch.view_as_real(torch.stft(x, 6, 2, window=w, return_complex=True)),
                  (X, WINDOW), (spread(X, mesh, Shard(1)), window), "window")
        self.close(torch.stft(X, 6, window=window, return_complex=True),
                   torch.stft(X, 6, window=WINDOW, return_complex=True))
        self.stays()

    @on_ranks(2)
    def test_what_torch_refuses(self, mesh):
        X = numbers(2, 20)
        for f in (lambda x: torch.stft(x, 6), lambda x: torch.stft(x, 60, center=False, return_complex=True),
                  lambda x: torch.stft(x, 6, 0, return_complex=True),
                  lambda x: torch.stft(x, 6, window=WINDOW[:5], return_complex=True),
                  lambda x: torch.stft(torch.complex(x, x), 6, onesided=True, return_complex=True),
                  lambda x: torch.stft(x[None], 6, center=False, return_complex=True)):
            with self.assertRaises(RuntimeError) as wanted:
                f(X)
            with self.assertRaises(RuntimeError) as got:
                f(spread(X, mesh, Shard(0)))
            self.assertEqual(str(got.exception).split(") :")[-1], str(wanted.exception).split(") :")[-1])

    @on_ranks(2, 3)
    def test_transforms_below_autograd(self, mesh):
        C, R = torch.complex(numbers(5, 4, 3), numbers(5, 4, 3, seed=1)), numbers(5, 4, 3)
        calls = itertools.product(CALLS.items(), ([0], [2], [0, 1], [2, 0], [0, 1, 2]), range(3), (True, False))
        laid = list(zip(layouts(C, mesh), layouts(R, mesh)))
        for (name, f), dims, scale, way in calls:
            wanted = f(C, R, dims, scale, way)
            for c, r in laid:
                with self.subTest(name, dims=dims, scale=scale, way=way, placements=c.placements):
                    got = f(c, r, dims, scale, way)
                    self.assertEqual((got.shape, got.dtype), (wanted.shape, wanted.dtype))
                    torch.testing.assert_close(full(got), wanted)
        self.stays()


if __name__ == "__main__":
    unittest.main()
