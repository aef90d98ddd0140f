//go:build tools

// Package tools names the programs that the test cluster builds from this module: Kueue, which holds Jobs back in queues.
package tools

import (
	_ "sigs.k8s.io/kueue/cmd/kueue"
)
