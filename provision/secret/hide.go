package secret

import (
	"regexp"
	"slices"
	"strings"
)

const (
	hidden  = "(secret)"
	renewed = "(secret, changed)"
)

// Hide replaces the values of secret keys in the text of a settings file: YAML and
// JSON ("key: value", also over several lines), redis.conf ("key value") and
// environment files ("KEY=value"), and passwords in URLs. The number of lines stays.
// A key is secret if its last part speaks of a password, secret or token, unless it
// names a file (password_file), or if that last part is one of keys.
func Hide(text string, keys ...string) string {
	return rewrite(text, keys, func(string) string { return hidden })
}

// HidePair is Hide for two states of a text. A value of the new text that is not in
// the old one is marked as changed, so that a comparison shows that something changes.
func HidePair(old, new string, keys ...string) (string, string) {
	var known []string
	rewrite(old, keys, func(value string) string { known = append(known, value); return hidden })
	return Hide(old, keys...), rewrite(new, keys, func(value string) string {
		if slices.Contains(known, value) {
			return hidden
		}
		return renewed
	})
}

var (
	// setting matches a line with a key and a value, perhaps commented out: indentation and
	// list dashes, the key perhaps in quotes, the separator, the value.
	setting = regexp.MustCompile(`^([ \t]*(?:#+[ \t]*)?(?:-[ \t]+)*(?:export[ \t]+)?["']?)([A-Za-z][A-Za-z0-9_.-]*)(["']?(?:[ \t]*[:=][ \t]*|[ \t]+))(.*)$`)
	// mapping matches a line of a YAML map.
	mapping = regexp.MustCompile(`^[ \t]*(?:-[ \t]+)*["']?[A-Za-z][A-Za-z0-9_.-]*["']?:(?:[ \t]|$)`)
	// inline matches a key and a value within a YAML or JSON map on one line.
	inline  = regexp.MustCompile(`([{,][ \t]*["']?)([A-Za-z][A-Za-z0-9_.-]*)(["']?[ \t]*:[ \t]*)("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|\[[^\]]*\]|[^,{}\[\s][^,}]*)`)
	urlUser = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"']*:)([^\s"']+)(@)`)
	telling = regexp.MustCompile(`(?i)(passw(or)?d|passphrase|passwd|secret|token|requirepass|masterauth|credential|api_?key|private_?key)s?$`)
)

func isSecret(key string, keys []string) bool {
	last := key[strings.LastIndexByte(key, '.')+1:]
	if telling.MatchString(last) {
		return true
	}
	return slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, last) })
}

// rewrite calls replace for every secret value.
func rewrite(text string, keys []string, replace func(value string) string) string {
	var out strings.Builder
	var b block
	for whole := range strings.Lines(text) {
		line := strings.TrimRight(whole, "\r\n")
		end := whole[len(line):]
		if b.covers(line) {
			if value := strings.TrimSpace(line); value != "" {
				line = line[:indentation(line)] + replace(value)
			}
		} else {
			line, b = rewriteLine(line, keys, replace)
		}
		out.WriteString(line + end)
	}
	return out.String()
}

// block is the value of a secret key that continues on the lines below the key.
type block struct {
	open    bool
	indent  int  // of the key
	literal bool // after "|" or ">": every line indented further belongs to it
}

// covers reports whether line is a part of the value. A map below a secret key ("tokens:")
// is not: each of its keys is judged by itself.
func (b block) covers(line string) bool {
	if !b.open {
		return false
	}
	text := strings.TrimSpace(line)
	deeper := indentation(line) > b.indent
	if b.literal || text == "" {
		return deeper || text == ""
	}
	item := strings.HasPrefix(text, "- ") && indentation(line) >= b.indent
	return (deeper || item) && !mapping.MatchString(line)
}

func rewriteLine(line string, keys []string, replace func(string) string) (string, block) {
	if m := setting.FindStringSubmatch(line); m != nil && isSecret(m[2], keys) && !prose(m[1], m[3], m[4]) {
		value := strings.TrimSpace(m[4])
		below := block{open: !strings.Contains(m[1], "#"), indent: indentation(line) + 2*strings.Count(m[1], "- ")}
		if strings.HasPrefix(value, "|") || strings.HasPrefix(value, ">") {
			below.literal = true
			return line, below
		}
		if value == "" {
			return line, below
		}
		return m[1] + m[2] + m[3] + replace(value), below
	}
	line = inline.ReplaceAllStringFunc(line, func(found string) string {
		m := inline.FindStringSubmatch(found)
		if !isSecret(m[2], keys) {
			return found
		}
		return m[1] + m[2] + m[3] + replace(m[4])
	})
	return urlUser.ReplaceAllStringFunc(line, func(found string) string {
		m := urlUser.FindStringSubmatch(found)
		return m[1] + replace(m[2]) + m[3]
	}), block{}
}

// prose reports whether a line only looks like a key and a value: "# token  what the caller
// presents", "password: # none".
func prose(before, separator, value string) bool {
	return strings.HasPrefix(value, "#") ||
		strings.Contains(before, "#") && strings.TrimLeft(separator, "\"' \t") == ""
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
