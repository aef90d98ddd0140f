"""Where a submitted job is."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Place:
    """A namespace in a cluster. The kubeconfig and its context select the cluster. For each field, None means the default."""

    namespace: str | None = None
    kubeconfig: str | None = None
    context: str | None = None

    def within(self, namespace: str) -> "Place":
        """Returns this place with another namespace."""
        return replace(self, namespace=namespace)
