//go:build tools

// Package tools names the programs that the test cluster builds from this module: kueue, whose queues hold Jobs back.
package tools

import (
	_ "sigs.k8s.io/kueue/cmd/kueue"
)
