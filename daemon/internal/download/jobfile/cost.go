package jobfile

import "bytes"

// nodeBytes is what a part of a YAML text takes in memory while it is read: a key, a value, or an item of a list.
const nodeBytes = 250

// Cost is about how many bytes of memory Parse needs for a text, and how many parts the text has: a few bytes can be a
// part of their own. Callers compare it with what there is before they call Parse.
func Cost(data []byte) (bytesNeeded int64, parts int) {
	parts = 20
	for _, ends := range []string{",", "\n", "[", "{"} {
		parts += bytes.Count(data, []byte(ends))
	}
	blank := func(at int) bool { return at < len(data) && (data[at] == ' ' || data[at] == '\t') }
	for at, b := range data {
		if (b == '-' || b == '?') && at > 0 && blank(at-1) && blank(at+1) { // a list in a list, in one line
			parts++
		}
	}
	parts += bytes.Count(data, []byte(":")) - bytes.Count(data, []byte("://"))
	return 3*int64(len(data)) + nodeBytes*int64(parts), parts
}
