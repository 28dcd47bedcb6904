//go:build !cgo

package jail

const withC = false
