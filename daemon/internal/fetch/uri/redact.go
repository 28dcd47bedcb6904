package uri

import "regexp"

// login is what stands before the host of a URI: user and password, or a token in place of them. Browsers
// take all up to the last @ before the path, and read backslashes as slashes; after http: they
// need no slashes.
var login = regexp.MustCompile(`(?i)((?:\bhttps?:|[/\\]{2})[/\\]*)[^/\\?#\s"'<>]*@`)

// whole is login where a text begins with a URI, whose user and password may have any characters.
var whole = regexp.MustCompile(`(?i)^(\s*h\s*t\s*t\s*p\s*s?\s*:[/\\\s]*)[^/\\?#]*@`)

// Redacted stands for what is not shown.
const Redacted = "xxxxx"

// Redact returns a text with the user and password of each URI in it replaced: what is stored may be
// needed for a request; what people and other programs are shown must not let them log in.
func Redact(text string) string {
	for i := range len(text) {
		if text[i] == '@' {
			return login.ReplaceAllString(whole.ReplaceAllString(text, "${1}"+Redacted+"@"), "${1}"+Redacted+"@")
		}
	}
	return text
}
