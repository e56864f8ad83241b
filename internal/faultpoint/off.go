//go:build !faults

package faultpoint

// Hit does nothing in this binary.
func Hit(Point) {}
