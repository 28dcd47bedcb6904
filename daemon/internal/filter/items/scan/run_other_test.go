//go:build !amd64

package scan

type runner struct {
	name string
	f    func(body []byte, pos int, dst []Span, limit int) (count, end int)
}

// runners are the scanners that this machine can run, the portable one first.
func runners() []runner { return []runner{{"go", plainRunGo}} }
