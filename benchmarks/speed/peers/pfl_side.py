"""pfl: federated averaging with its central Gaussian mechanism, PyTorch model, one process."""

from __future__ import annotations

import logging

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import MinimizeReuseUserSampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from pfl.privacy import CentrallyAppliedPrivacyMechanism, GaussianMechanism

from benchmarks.speed.peers.torch_models import make_model, tensors, vector
from benchmarks.speed.protocol import Side, serve
from benchmarks.speed.usage import Meter
from benchmarks.speed.works import Floats, Work, data


class _Trained(torch.nn.Module):
    """The interface that pfl needs: a loss to train on and metrics to evaluate."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.model(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Weighted]:
        with torch.no_grad():
            total = torch.nn.functional.cross_entropy(self.model(x), y, reduction="sum").item()
        return {"loss": Weighted(total, len(y))}


class PflSide(Side):
    """Rounds of ``FederatedAveraging`` on a ``SimulatedBackend``."""

    def __init__(self, work: Work) -> None:
        logging.disable(logging.WARNING)
        np.random.seed(work.seed)
        torch.manual_seed(work.seed)
        self.work, module = work, _Trained(make_model(work))
        x, y = tensors(*data(work), work)
        users = [[x[client], y[client]] for client in range(work.clients)]
        federated = FederatedDataset(
            lambda user: Dataset(users[user], user_id=str(user)),
            MinimizeReuseUserSampler(list(range(work.clients))),
        )
        mechanism = CentrallyAppliedPrivacyMechanism(
            GaussianMechanism(clipping_bound=work.clip, relative_noise_stddev=work.noise)
        )
        self._backend = SimulatedBackend(
            training_data=federated, val_data=None, postprocessors=[mechanism]
        )
        self._model = PyTorchModel(
            module,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
        )
        self._training = NNTrainHyperParams(
            local_num_epochs=work.steps, local_learning_rate=work.lr, local_batch_size=None
        )

    def run(self, rounds: int, meter: Meter) -> None:
        algorithm = _Unevaluated()
        meter.start()
        algorithm.run(
            NNAlgorithmParams(
                central_num_iterations=rounds + 1,  # counted from 1 here: see _Unevaluated
                evaluation_frequency=10**9,
                train_cohort_size=self.work.cohort,
                val_cohort_size=None,
            ),
            self._backend,
            self._model,
            self._training,
            send_metrics_to_platform=False,
        )
        meter.stop()

    def params(self) -> Floats:
        return vector(self._model.pytorch_model)

    def about(self) -> dict[str, object]:
        return {"threads": torch.get_num_threads(), "processes": 1}


class _Unevaluated(FederatedAveraging):
    """Starts at iteration 1: at iteration 0 pfl evaluates every user, which no other side does."""

    def __init__(self) -> None:
        super().__init__()
        self._current_central_iteration = 1


if __name__ == "__main__":
    serve(PflSide, ("pfl", "torch", "numpy"))
