package items

// AppendMarked appends a JSON array of the raw text of those items i whose marks[i] is
// true. The items must be JSON values, not lines; len(marks) must be l.Len().
func (l *List) AppendMarked(dst []byte, marks []bool) []byte {
	dst = append(dst, '[')
	first := true
	for i := 0; i < len(l.spans); i++ {
		if !marks[i] {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		run := l.rawSpan(i)
		// Neighbours that are both new are copied in one piece, with the comma (and the one
		// space that Python writes) between them.
		for i+1 < len(l.spans) && marks[i+1] {
			next := l.rawSpan(i + 1)
			if l.body[run.End] != ',' || next.Start-run.End > 2 {
				break
			}
			run.End = next.End
			i++
		}
		dst = append(dst, l.body[run.Start:run.End]...)
	}
	return append(dst, ']')
}

// AppendMarkedLines appends the raw text of those items i whose marks[i] is true, each
// ended by LF. The raw text of a value from a JSON body may have line ends in it.
// len(marks) must be l.Len().
func (l *List) AppendMarkedLines(dst []byte, marks []bool) []byte {
	for i := 0; i < len(l.spans); i++ {
		if !marks[i] {
			continue
		}
		run := l.rawSpan(i)
		for i+1 < len(l.spans) && marks[i+1] && l.body[run.End] == '\n' {
			next := l.rawSpan(i + 1)
			if next.Start-run.End != 1 {
				break
			}
			run.End = next.End
			i++
		}
		dst = append(dst, l.body[run.Start:run.End]...)
		dst = append(dst, '\n')
	}
	return dst
}
