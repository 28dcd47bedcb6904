package scan

import "golang.org/x/sys/cpu"

type runner struct {
	name string
	f    func(body []byte, pos int, dst []Span, limit int) (count, end int)
}

// runners are the scanners that this machine can run, the portable one first.
func runners() []runner {
	all := []runner{{"go", plainRunGo}}
	if cpu.X86.HasAVX2 {
		all = append(all, runner{"avx2", plainRunAVX2})
	}
	return all
}
