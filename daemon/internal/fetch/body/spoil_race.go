//go:build race

package body

// spoil overwrites memory that nobody may use any more. Code that still uses it is
// reported by the race detector, or finds no page.
func spoil(mem []byte) {
	for i := range mem {
		mem[i] = 0xdb
	}
}
