"""Read by every Python that ``dishonest_server.py`` starts: the server attacks its sites there."""

import os
import sys

if "TACIT_SERVER_FOLDER" in os.environ and any("flwr-serverapp" in a for a in sys.argv):
    from adversary import DishonestServer, wild_requests

    from tacit.deployment.server.coordinator import Coordinator
    from tacit.deployment.server.status import Status

    def attack(self: Coordinator) -> None:
        """Some of the wild requests to every site; what they answer is written down there."""
        self._gather()
        server = DishonestServer(self.public, self.transport)
        chosen = [request for _, request in list(wild_requests(server))[::9]]
        for request in chosen:
            self.transport.ask(dict.fromkeys(sorted(self.transport.online()), request))
        self._tell(Status("done", 0, self.plan.rounds, metrics={"requests": float(len(chosen))}))

    Coordinator.run = attack  # type: ignore[method-assign, assignment]
