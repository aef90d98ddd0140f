//go:build tools

// Package tools names the programs that the test cluster builds from this module: CoreDNS.
package tools

import (
	_ "github.com/coredns/coredns"
)
