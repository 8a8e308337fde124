"""Functions of matrices: those of a batch stay on the ranks that have them. Values and gradients of two orders, in any
layout, and nothing is gathered."""
import itertools
import unittest

from torch_ranks import AgainstTorch, DEVICE, Replicate, Shard, drawn, full, layouts, numbers, on_ranks, spread, torch

from torch import linalg

EYE = torch.eye(3, dtype=torch.float64, device=DEVICE)
ONE = numbers(3, 3, seed=4) + 3 * EYE


def symmetric(a):
    return a @ a.mT + 3 * EYE


# Of a batch of matrices a, of 3 rows, and one of b, of 3 rows and 4 columns.
CALLS = {
    "cholesky": lambda a, b: linalg.cholesky(symmetric(a)), "upper": lambda a, b: torch.linalg.cholesky(
        symmetric(a), upper=True), "inverse": lambda a, b: linalg.inv(a + 3 * EYE), "solve": lambda a, b: linalg.solve(
            a + 3 * EYE, b), "vectors": lambda a, b: linalg.solve(a + 3 * EYE, b[..., 0]),
    "one for all": lambda a, b: linalg.solve(ONE, b), "from the right": lambda a, b: linalg.solve(
        ONE, b.mT, left=False), "determinant": lambda a, b: linalg.det(a), "logarithm": lambda a, b: linalg.slogdet(a),
    "singular values": lambda a, b: linalg.svdvals(b), "svd": lambda a, b: linalg.svd(b, full_matrices=False)[1],
    "eigenvalues": lambda a, b: linalg.eigvalsh(symmetric(a)), "eigh": lambda a, b: linalg.eigh(symmetric(a))[0],
    "projections": lambda a, b: linalg.eigh(symmetric(a))[1].square(), "pinv": lambda a, b: linalg.pinv(b),
    "exponential": lambda a, b: linalg.matrix_exp(a * 0.1), "triangles": lambda a, b: linalg.solve_triangular(
        a.triu() + 3 * EYE, b, upper=True), "by cholesky": lambda a, b: torch.cholesky_solve(
            b, linalg.cholesky(symmetric(a))), "power": lambda a, b: linalg.matrix_power(a + 3 * EYE, -2),
    "nuclear norm": lambda a, b: linalg.matrix_norm(b, "nuc"), "largest": lambda a, b: linalg.matrix_norm(b, 2),
    "by lu": lambda a, b: linalg.lu_solve(*linalg.lu_factor(a + 3 * EYE), b),
    "lu": lambda a, b: linalg.lu(a + 3 * EYE)[1:],
    "complex": lambda a, b: torch.view_as_real(linalg.inv(torch.complex(a, a.mT) + 3 * EYE)),
    "complex pinv": lambda a, b: torch.view_as_real(linalg.pinv(torch.complex(b, b.square()))),
    "complex qr": lambda a, b: torch.view_as_real(linalg.qr(torch.complex(b, b.square()).mT)[1]),
    "reflections": lambda a, b: linalg.householder_product(a.tril(-1), b[..., 0].abs() * 0 + 0.5)
}
TOLD = {
    "rank": lambda a, b: linalg.matrix_rank(b), "condition": lambda a, b: linalg.cond(a), "eigenvalues":
    lambda a, b: torch.view_as_real(linalg.eigvals(a)).sum(-2), "unpacked": lambda a, b: torch.lu_unpack(
        *linalg.lu_factor(a)), "qr": lambda a, b: [t.abs() for t in linalg.qr(b)], "r": lambda a, b: linalg.qr(
            b, mode="r")[1].abs(), "ldl": lambda a, b: linalg.ldl_solve(*linalg.ldl_factor(symmetric(a)), b)
}


class Matrices(AgainstTorch):
    def against(self, calls, mesh):
        A, B = numbers(5, 3, 3), numbers(5, 3, 4, seed=1)
        others = [next(layouts(B, mesh)), spread(B, mesh, Shard(2)), B]
        for (name, f), a, b in drawn(itertools.product(calls.items(), layouts(A, mesh), others)):
            if a.placements[0].is_shard() or getattr(b, "placements", (Replicate(), ))[0].is_shard():
                self.same(f, (A, B), (a, b), (name, a.placements, getattr(b, "placements", "plain")))
        self.stays()

    @on_ranks(2, 3)
    def test_functions(self, mesh):
        self.against(CALLS, mesh)

    @on_ranks(3)
    def test_what_has_no_gradient(self, mesh):
        with torch.no_grad():
            self.against(TOLD, mesh)

    @on_ranks(4, mesh=(2, -1))
    def test_two_axes_and_two_dims(self, mesh):
        A = numbers(2, 5, 3, 3)
        for p, q in itertools.product((Shard(0), Shard(1), Shard(2), Replicate()), repeat=2):
            if (p, q) != (Replicate(), Replicate()):
                a, one = spread(A, mesh, p, q, requires_grad=True), A.clone().requires_grad_()
                got, wanted = (linalg.inv(t + 3 * EYE) for t in (a, one))
                self.close(got, wanted)
                got.square().sum().backward(), wanted.square().sum().backward()
                self.close(a.grad, one.grad)
        self.stays()

    @on_ranks(2, 3)
    def test_one_rank_s_matrix_fails_on_all(self, mesh):
        A = symmetric(numbers(5, 3, 3))
        for f, bad in ((linalg.cholesky, -EYE), (linalg.inv, 0 * EYE), (lambda a: linalg.solve(a, a), 0 * EYE),
                       (linalg.eigvalsh, torch.nan * EYE), (linalg.svdvals, torch.nan * EYE)):
            B = A.clone()
            B[4] = bad
            for matrices in (A, B):
                a, failed = spread(matrices, mesh, Shard(0)), []
                for t in (a, matrices):
                    try:
                        f(t)
                        failed.append(False)
                    except torch.linalg.LinAlgError:
                        failed.append(True)
                self.assertEqual(*failed)
            self.close(f(spread(A, mesh, Shard(0))), f(A))  # and all go on

    @on_ranks(2)
    def test_one_matrix_is_gathered(self, mesh):
        """Its rows belong together."""
        a = spread(numbers(4, 4), mesh, Shard(0))
        self.close(linalg.det(a), linalg.det(full(a)))


if __name__ == "__main__":
    unittest.main()
