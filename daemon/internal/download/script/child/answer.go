package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/net/html"

	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
)

// answerAll makes the process read pages for another process whose language cannot. It is jailed
// just as strictly. It returns the exit code.
func answerAll(in *bufio.Reader, q *wire.Ask) int {
	var a answerer
	for q != nil {
		found, err := a.answer(q)
		if err != nil {
			found = wire.Found{Refused: err.Error()}
		}
		if err := wire.Write(os.Stdout, wire.Up{Found: &found}); err != nil {
			return complain(ExitWire, err)
		}
		var m wire.Down
		if err := wire.Read(in, &m); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			return complain(ExitWire, err)
		}
		q = m.Ask
	}
	return complain(ExitWire, errors.New("a message is no question"))
}

// answerer knows the elements that it has reported, by number, and their numbers.
type answerer struct {
	doc     parsed
	nodes   []*html.Node
	numbers map[*html.Node]int
}

func (a *answerer) answer(q *wire.Ask) (found wire.Found, err error) {
	if q.Source == nil && q.Element == 0 {
		p := page{Page: wire.Page{Body: q.Decode, ContentType: q.Type}}
		return wire.Found{Text: p.unicode()}, nil
	}
	var below *html.Node
	if q.Source != nil {
		fresh, err := a.doc.parse(*q.Source)
		if err != nil {
			return found, err
		}
		if fresh && a.numbers == nil {
			a.numbers = map[*html.Node]int{}
		}
		below = a.doc.root
	} else {
		if q.Element < 1 || q.Element > len(a.nodes) {
			return found, fmt.Errorf("html.select: there is no element %d", q.Element)
		}
		below = a.nodes[q.Element-1]
	}
	switch q.Member {
	case "text":
		return wire.Found{Text: visible(below)}, nil
	case "html":
		var text strings.Builder
		err := html.Render(&text, below)
		return wire.Found{Text: text.String()}, err
	}
	nodes, err := query(below, q.CSS)
	if err != nil {
		return found, err
	}
	for _, node := range nodes {
		n, known := a.numbers[node]
		if !known {
			a.nodes = append(a.nodes, node)
			n = len(a.nodes)
			a.numbers[node] = n
		}
		e := wire.Element{ID: n, Name: node.Data, Attrs: map[string]string{}}
		for _, attr := range node.Attr {
			e.Attrs[attr.Key] = attr.Val
		}
		found.Elements = append(found.Elements, e)
	}
	return found, nil
}
