//go:build tools

// Package tools names the programs that the test cluster builds from this module: Helm.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
