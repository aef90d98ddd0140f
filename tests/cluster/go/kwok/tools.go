//go:build tools

// Package tools names the programs that the test cluster builds from this module: kwok, which simulates nodes and pods.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
