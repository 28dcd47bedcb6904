package uri

import (
	"reflect"
	"testing"
)

// checkPlain: the short way gives what the parser gives.
func checkPlain(t *testing.T, base, reference string) bool {
	t.Helper()
	u, err := Parse(base)
	if err != nil {
		return false
	}
	short := u.resolvePlain(reference)
	if short == nil {
		return false
	}
	long, err := read(reference, u.href)
	if err != nil || !reflect.DeepEqual(short, long) {
		t.Errorf("%q of %q: got %+v, the parser says %+v, %v", reference, base, short, long, err)
	}
	return true
}

func TestResolvePlain(t *testing.T) {
	t.Parallel()
	for reference, want := range map[string]bool{
		"/a": true, "/a/b.html?x=1&y=%20/?": true, "/a#b\x00": true, "/a??": true, "/a;b=c:d@e,f!$&()*+~-_": true, "/a//b": true, "/c:/x": true, "/a?b#c?d": true,
		"/a?": false, "/a?#b": false, "/": false, "": false, "a": false, "//h/x": false, "/a/../b": false, "/.": false, "/%2e%2e/a": false, "/a b": false, "/ä": false, `/\h`: false, "/a?'": false, "/a\tb": false, "?a": false, "/a|b": false,
	} {
		for _, base := range []string{"http://h.example/d/p?q#f", "https://user:secret@[::1]:8443/", "http://127.0.0.1:8080/x"} {
			if got := checkPlain(t, base, reference); got != want {
				t.Errorf("%q of %q: plain is %v, want %v", reference, base, got, want)
			}
		}
	}
}

func FuzzResolvePlain(f *testing.F) {
	f.Add("http://h/", "/a/b?c%#d")
	f.Add("https://u@[::1]:1/x", "/:@/..a")
	f.Fuzz(func(t *testing.T, base, reference string) { checkPlain(t, base, reference) })
}
