package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	starlarkjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
)

// names are the names that the code can use, as script.Names lists them.
func (r *run) names() starlark.StringDict {
	all := starlark.StringDict{
		"fetch":  starlark.NewBuiltin("fetch", r.fetch),
		"html":   r.html(),
		"json":   starlarkjson.Module,
		"emit":   starlark.NewBuiltin("emit", r.emit),
		"follow": starlark.NewBuiltin("follow", r.follow),
		"log":    starlark.NewBuiltin("log", r.log),
		"fail":   starlark.NewBuiltin("fail", fail),
	}
	names := starlark.StringDict{}
	for _, name := range script.Names(download.Script(r.start.Function)) {
		names[name] = all[name]
	}
	return names
}

type (
	thread  = *starlark.Thread
	builtin = *starlark.Builtin
	tuple   = starlark.Tuple
	value   = starlark.Value
)

// fetch(url, method="GET", headers={}, body="", any_status=False) returns a page.
func (r *run) fetch(_ thread, b builtin, args tuple, kwargs []tuple) (value, error) {
	q := &wire.Fetch{Method: "GET", Headers: map[string]string{}}
	headers := new(starlark.Dict)
	var body value = starlark.String("")
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "url", &q.URL, "method?", &q.Method, "headers?", &headers, "body?", &body, "any_status?", &q.Any); err != nil {
		return nil, err
	}
	for _, item := range headers.Items() {
		name, isName := starlark.AsString(item[0])
		text, isText := starlark.AsString(item[1])
		if !isName || !isText {
			return nil, fmt.Errorf("fetch: headers: %s: want a text for a text", item[0])
		}
		q.Headers[name] = text
	}
	switch body := body.(type) {
	case starlark.String:
		q.Body = []byte(body)
	case starlark.Bytes:
		q.Body = []byte(body)
	default:
		return nil, fmt.Errorf("fetch: body: got %s, want a text or bytes", body.Type())
	}
	if len(q.Body) > script.MaxSent {
		return nil, fmt.Errorf("fetch: body of %d bytes: want %d at most", len(q.Body), script.MaxSent)
	}
	r.send(wire.Up{Fetch: q})
	select {
	case p := <-r.pages:
		if p.Refused != "" {
			return nil, errors.New("fetch: " + p.Refused)
		}
		r.base = p.URL
		return &page{Page: *p}, nil
	case <-r.stopped:
		return nil, errors.New(r.reason())
	}
}

// emit(record) stores a record, as JSON.
func (r *run) emit(t thread, b builtin, args tuple, kwargs []tuple) (value, error) {
	var record value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "record", &record); err != nil {
		return nil, err
	}
	encoded, err := starlark.Call(t, starlarkjson.Module.Members["encode"], tuple{record}, nil)
	if err != nil {
		return nil, err
	}
	text, _ := starlark.AsString(encoded)
	text = strings.ToValidUTF8(text, "\uFFFD")
	if r.records++; r.records > script.MaxRecords {
		return nil, fmt.Errorf("emit: more than %d records", script.MaxRecords)
	}
	if r.emitted += len(text); r.emitted > script.MaxEmitted {
		return nil, fmt.Errorf("emit: more than %d bytes of records", script.MaxEmitted)
	}
	r.send(wire.Up{Emit: json.RawMessage(text)})
	return starlark.None, nil
}

// follow(urls, base=None) makes tasks of links.
func (r *run) follow(_ thread, b builtin, args tuple, kwargs []tuple) (value, error) {
	var links value
	base := r.base
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "urls", &links, "base?", &base); err != nil {
		return nil, err
	}
	f := &wire.Follow{Base: base}
	add := func(link value) error {
		text, ok := starlark.AsString(link)
		if !ok {
			return fmt.Errorf("follow: got %s, want a text or a list of texts", link.Type())
		}
		if r.links++; r.links > script.MaxLinks {
			return fmt.Errorf("follow: more than %d links", script.MaxLinks)
		}
		f.Links = append(f.Links, strings.ToValidUTF8(text, "\uFFFD"))
		return nil
	}
	if list, ok := links.(starlark.Iterable); ok {
		all := list.Iterate()
		defer all.Done()
		for link := value(nil); all.Next(&link); {
			if err := add(link); err != nil {
				return nil, err
			}
		}
	} else if err := add(links); err != nil {
		return nil, err
	}
	if len(f.Links) > 0 {
		r.send(wire.Up{Follow: f})
	}
	return starlark.None, nil
}

// log(*values) writes a line to the worker's log.
func (r *run) log(_ thread, b builtin, args tuple, kwargs []tuple) (value, error) {
	if len(kwargs) > 0 {
		return nil, fmt.Errorf("%s: has no parameters with names", b.Name())
	}
	r.say(textOf(args))
	return starlark.None, nil
}

// say logs a line. Lines beyond the bound are dropped, which is no fault.
func (r *run) say(text string) {
	if r.lines++; r.lines > script.MaxLines {
		return
	}
	text = cut(strings.ToValidUTF8(text, "\uFFFD"), script.MaxLine)
	r.send(wire.Up{Log: &text})
}

func textOf(args tuple) string {
	parts := make([]string, len(args))
	for i, arg := range args {
		if text, ok := starlark.AsString(arg); ok {
			parts[i] = text
		} else {
			parts[i] = arg.String()
		}
	}
	return strings.Join(parts, " ")
}

// fail(*values, permanent=False) ends the attempt.
func fail(_ thread, b builtin, args tuple, kwargs []tuple) (value, error) {
	permanent := false
	if err := starlark.UnpackArgs(b.Name(), nil, kwargs, "permanent?", &permanent); err != nil {
		return nil, err
	}
	text := textOf(args)
	if text == "" {
		text = "fail() was called"
	}
	return nil, &failure{text, permanent}
}

// hash is for values that cannot be keys.
func hash(v value) (uint32, error) { return math.MaxUint32, fmt.Errorf("unhashable: %s", v.Type()) }
