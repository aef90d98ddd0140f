//go:build tools

// Package tools names the programs that the test cluster builds from this module: etcd.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
