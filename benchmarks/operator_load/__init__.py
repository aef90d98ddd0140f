"""What the operator costs and how soon it acts, on a real control plane with pods that kwok plays."""
