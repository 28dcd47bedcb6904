package filter

import (
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/commandtest"
)

func TestForgetCommand(t *testing.T) {
	server := clienttest.NewServer(t)
	c, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.CreateFilter(t.Context(), "jobs", client.FilterSpec{Kind: "exact"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Filter(t.Context(), "jobs", []string{"a", "b", "7"}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		code     int
		in, want string
		args     []string
	}{
		{0, "a\r\n\nx\na\n", "1 of 3 items forgotten\n", nil},
		{0, "\"b\"\n7\n", "\"forgotten\": 1", []string{"--input-format", "ndjson", "--json"}},
		{1, "\"b\"\n\"\"\n", "line 2: ", []string{"--input-format", "ndjson"}},
		{1, "a\n", "422 forget_not_supported", []string{"--type", "uri"}},
		{1, strings.Repeat("1\n", batchLines) + "null\n", "line 10,001: ", []string{"--input-format", "ndjson"}},
		{1, strings.Repeat("1\n", batchLines) + "null\n", "0 items are forgotten; nothing from line 10001 on is", []string{"--input-format", "ndjson"}},
	} {
		args := append([]string{"forget", "--type", "jobs"}, test.args...)
		code, out, errOut := commandtest.Program{NewForget}.Ask(t, server, test.in, args...)
		if code != test.code || !strings.Contains(out+errOut, test.want) || strings.Contains(errOut, "at item") {
			t.Errorf("%q: code %d, %s%s, want %d and %q", test.args, code, out, errOut, test.code, test.want)
		}
	}
	if isNew, err := c.Check(t.Context(), "jobs", []string{"a", "b", "7"}); err != nil || !isNew[0] || !isNew[1] || isNew[2] {
		t.Errorf("new: %v, %v", isNew, err)
	}
}
