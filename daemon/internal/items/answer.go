package items

// AppendFresh appends a JSON array of the raw text of those items i whose fresh[i] is
// true. The items must be JSON values, not lines; len(fresh) must be l.Len().
func (l *List) AppendFresh(dst []byte, fresh []bool) []byte {
	dst = append(dst, '[')
	first := true
	for i := 0; i < len(l.spans); i++ {
		if !fresh[i] {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		run := l.rawSpan(i)
		// Neighbours that are both new go in one copy, with the comma (and the one
		// space that Python writes) between them.
		for i+1 < len(l.spans) && fresh[i+1] {
			next := l.rawSpan(i + 1)
			if l.body[run.end] != ',' || next.start-run.end > 2 {
				break
			}
			run.end = next.end
			i++
		}
		dst = append(dst, l.body[run.start:run.end]...)
	}
	return append(dst, ']')
}

// AppendFreshLines appends the raw text of those items i whose fresh[i] is true, each
// ended by LF. The raw text of a value from a JSON body may have line ends in it.
// len(fresh) must be l.Len().
func (l *List) AppendFreshLines(dst []byte, fresh []bool) []byte {
	for i := 0; i < len(l.spans); i++ {
		if !fresh[i] {
			continue
		}
		run := l.rawSpan(i)
		for i+1 < len(l.spans) && fresh[i+1] && l.body[run.end] == '\n' {
			next := l.rawSpan(i + 1)
			if next.start-run.end != 1 {
				break
			}
			run.end = next.end
			i++
		}
		dst = append(dst, l.body[run.start:run.end]...)
		dst = append(dst, '\n')
	}
	return dst
}
