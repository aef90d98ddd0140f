"""Where a submitted job is."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Place:
    """A namespace of the cluster that a context of a kubeconfig names. None stands for the default."""

    namespace: str | None = None
    kubeconfig: str | None = None
    context: str | None = None

    def within(self, namespace: str) -> "Place":
        """Returns the place with the namespace that was chosen."""
        return replace(self, namespace=namespace)
