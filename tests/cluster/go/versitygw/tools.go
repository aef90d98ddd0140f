//go:build tools

// Package tools pins the S3 server that the tests run; storeservers/s3.py builds it from here.
package tools

import _ "github.com/versity/versitygw/cmd/versitygw"
