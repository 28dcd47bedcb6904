//go:build !amd64

package scan

// PlainRun cuts a run of plain strings as plainRunGo does.
func PlainRun(body []byte, pos int, dst []Span, limit int) (count, end int) {
	return plainRunGo(body, pos, dst, limit)
}
