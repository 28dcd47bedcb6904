package scan

import "golang.org/x/sys/cpu"

// PlainRun cuts a run of plain strings as plainRunGo does, but may leave the last 32 bytes of
// the body to the caller. AVX2 makes it nearly twice as fast: 8.8 us for 1,000 strings of
// 66 bytes, where the portable one takes 15.5 (BenchmarkPlainRun).
func PlainRun(body []byte, pos int, dst []Span, limit int) (count, end int) {
	if cpu.X86.HasAVX2 && len(dst) > 0 {
		return plainRunAVX2(body, pos, dst, limit)
	}
	return plainRunGo(body, pos, dst, limit)
}

// plainRunAVX2 takes a string only if the 32 bytes that hold its closing quote are
// inside the body. len(dst) must not be 0.
//
//go:noescape
func plainRunAVX2(body []byte, pos int, dst []Span, limit int) (count, end int)
