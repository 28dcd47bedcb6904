package errorreport

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/getsentry/sentry-go"
)

// maxText is how many bytes of a value are sent.
const maxText = 500

// keys are the only attributes of the log that are sent.
var keys = []string{"err", "panic", "job", "worker", "call", "status", "code", "tries", "failed", "redis"}

// eventOf returns the event of a record, nil if there is none: only errors and some warnings have one.
func eventOf(record slog.Record, attrs []slog.Attr) *sentry.Event {
	event := sentry.NewEvent()
	event.Timestamp, event.Level = record.Time, sentry.LevelError
	event.Tags = map[string]string{}
	var cause string
	panicked := false
	for _, a := range attrs {
		if !slices.Contains(keys, a.Key) {
			continue
		}
		text := Scrubbed(a.Value.Resolve().String())
		switch a.Key {
		case "err", "panic":
			cause, panicked = text, a.Key == "panic"
		default:
			event.Tags[a.Key] = text
		}
	}
	switch {
	case record.Level < slog.LevelWarn, record.Level < slog.LevelError && cause == "":
		return nil
	case record.Level < slog.LevelError:
		event.Level = sentry.LevelWarning
	case panicked:
		event.Level = sentry.LevelFatal
	}
	event.Message = record.Message
	event.Fingerprint = []string{record.Message, "{{ type }}"}
	exception := sentry.Exception{Type: record.Message, Value: cause}
	if panicked { // the stack of the panic is still there when recovering code logs
		exception.Stacktrace = sentry.NewStacktrace()
	}
	event.Exception = []sentry.Exception{exception}
	return event
}

var (
	credentials = regexp.MustCompile(`://[^/\s"'@]*@`)
	queries     = regexp.MustCompile(`(://[^\s"'?#]*)[?#][^\s"']*`)
	cookies     = regexp.MustCompile(`(?i)\b((?:set-)?cookie["']?\s*[:=]\s*["']?)[^"'\n]*`)
	secrets     = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|bearer|basic|[a-z_-]*token|password|passwd|secret|api[_-]?key|session(?:id)?)\b(["']?\s*[:= ]\s*["']?)(?:(?:bearer|basic)\s+)?[^\s"',]+`)
)

// Scrubbed returns a text without confidential parts: credentials and queries of URLs, values of
// cookies, tokens and passwords. It is cut to maxText bytes.
func Scrubbed(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = credentials.ReplaceAllString(text, "://xxxxx@")
	text = queries.ReplaceAllString(text, "$1?xxxxx")
	text = cookies.ReplaceAllString(text, "${1}xxxxx")
	text = secrets.ReplaceAllString(text, "$1${2}xxxxx")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return text
}
