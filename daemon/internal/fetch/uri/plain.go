package uri

import "strings"

// plainBytes stand for themselves in a path, and those of plainQuery in a query.
var plainBytes, plainQuery = bytesOf("-_.~!$&()*+,;=:@/"), bytesOf("-_.~!$&()*+,;=:@/?%")

func bytesOf(more string) (set [256]bool) {
	for c := '0'; c <= '9'; c++ {
		set[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		set[c], set[c-'a'+'A'] = true, true
	}
	for i := range len(more) {
		set[more[i]] = true
	}
	return set
}

// resolvePlain resolves what most links of pages are, a path of the same host in which nothing has to be
// encoded or taken away, with or without query and fragment: the parser takes 20 times as long for it. It is nil for
// everything else.
func (u *URI) resolvePlain(reference string) *URI {
	reference, _, _ = strings.Cut(reference, "#")
	if len(reference) < 2 || reference[0] != '/' || reference[1] == '/' || strings.Contains(reference, "/.") {
		return nil
	}
	set := &plainBytes
	for i := range len(reference) {
		c := reference[i]
		if c == '?' && set == &plainBytes {
			if i == len(reference)-1 {
				return nil // an empty query goes
			}
			set = &plainQuery
		}
		if !set[c] {
			return nil
		}
	}
	v := *u
	v.User, v.Path = nil, reference
	if v.href = u.Origin() + reference; len(v.href) > MaxBytes {
		return nil
	}
	return &v
}
