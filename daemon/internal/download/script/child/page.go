package child

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	starlarkjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"golang.org/x/net/html/charset"

	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
)

// page is what fetch returns, or a stored page. Its members are url, status, headers, body (bytes),
// text (body in Unicode) and records (those stored with it).
type page struct {
	wire.Page
	decoded *string
}

var pageMembers = []string{"body", "headers", "records", "status", "text", "url"}

func (p *page) String() string        { return fmt.Sprintf("<page %s: %d>", p.URL, p.Status) }
func (p *page) Type() string          { return "page" }
func (p *page) Freeze()               {}
func (p *page) Truth() starlark.Bool  { return true }
func (p *page) Hash() (uint32, error) { return hash(p) }
func (p *page) AttrNames() []string   { return slices.Clone(pageMembers) }

func (p *page) Attr(name string) (starlark.Value, error) {
	switch name {
	case "url":
		return starlark.String(p.URL), nil
	case "status":
		return starlark.MakeInt(p.Status), nil
	case "body":
		return starlark.Bytes(p.Body), nil
	case "text":
		return starlark.String(p.unicode()), nil
	case "records":
		if len(p.Records) == 0 {
			return starlark.NewList(nil), nil
		}
		thread := &starlark.Thread{Name: "records"}
		return starlark.Call(thread, starlarkjson.Module.Members["decode"], starlark.Tuple{starlark.String(p.Records)}, nil)
	case "headers":
		d := starlark.NewDict(len(p.Headers))
		for name, text := range p.Headers {
			if err := d.SetKey(starlark.String(name), starlark.String(text)); err != nil {
				return nil, err
			}
		}
		return d, nil
	}
	return nil, nil
}

// unicode decodes the body by the encoding that the Content-Type, a byte order mark or the page declares.
func (p *page) unicode() string {
	if p.decoded == nil {
		text := string(p.Body)
		if r, err := charset.NewReader(bytes.NewReader(p.Body), p.ContentType); err == nil {
			if decoded, err := io.ReadAll(r); err == nil {
				text = string(decoded)
			}
		}
		text = strings.ToValidUTF8(text, "\uFFFD")
		p.decoded = &text
	}
	return *p.decoded
}
