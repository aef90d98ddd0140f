"""The stored files of a data set (plan, reports, manifest), and the messages between its pods and the operator."""
