package configs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs/strict"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadLayers(t *testing.T) {
	path := writeFile(t, "u.yaml", `
listen: 127.0.0.1:9000
redis: {addrs: [a:1, b:2], db: 2}
uri_num_scale: 2e6
accept_error_rate: 1e-3
limits:
  body_bytes: 1MiB
  items: 5_000
filters: [{name: only, capacity: 77}]
shutdown_timeout: 1m30s
mongodb:
  # uri: all keys commented out
`)
	c, err := Load(path, []string{
		"PATH=/bin", "URIFILTER_LISTEN=127.0.0.1:9001", "URIFILTER_REDIS_ADDRS=c:3, d:4,", "URIFILTER_REDIS_TLS=true",
		"URIFILTER_URI_NUM_SCALE=30_000", "URI_NUM_SCALE=1", "ACCEPT_ERROR_RATE=0.05", "URIFILTER_LIMITS_BODY_BYTES=2MiB",
		"URIFILTER_LIMITS_BODY_TIMEOUT=5s",
		"URIFILTER_CONFIG=x", "URIFILTER_URL=x", "URIFILTER_TOKEN=x", "URIFILTER_FILTER=x", "URIFILTER_TYPE=x", "URIFILTER_HOSTS=x", "URIFILTER_RESP=x", "URIFILTER_SSH_CONFIG=x", "URIFILTER_BASTION_PASSWORD=x", "URIFILTER_TEST_ANY=x",
		"URIFILTER_TIMEOUT=x", "URIFILTER_PATIENCE=x", "URIFILTER_IN_DOUBT=x", "URIFILTER_CA_FILE=x", "URIFILTER_BATCH_ITEMS=x", "URIFILTER_BATCH_BYTES=x",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Listen = "127.0.0.1:9001"
	want.Redis.Addrs, want.Redis.DB, want.Redis.TLS = []string{"c:3", "d:4"}, 2, true
	want.URINumScale, want.AcceptErrorRate = 30_000, 0.05
	want.Limits.BodyBytes, want.Limits.Items, want.Limits.BodyTimeout = 2*MiB, 5000, 5*time.Second
	want.Filters = []Filter{{Name: "only", Params: Bloom{Capacity: 77}}}
	want.ShutdownTimeout = 90 * time.Second
	if !reflect.DeepEqual(c, want) {
		t.Errorf("Load:\ngot  %+v\nwant %+v", c, want)
	}
}

func TestLoadNothing(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "---\n", "{}"} {
		c, err := Load(writeFile(t, "u.yaml", text), nil)
		if err != nil || !reflect.DeepEqual(c, Default()) {
			t.Errorf("Load of %q: %+v, %v; want the defaults", text, c, err)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of no file: %v", err)
	}
}

func TestLoadFileFaults(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"listen: a:1\nstoer: redis\n", ":2: stoer: unknown key; did you mean store?"},
		{"redis:\n  addr: [a:1]\n", ":2: redis.addr: unknown key; did you mean addrs?"},
		{"filters:\n  - {name: a, kind: timing, capacity: 10}\n", ":2: filters[0].capacity: 10: is for the kind bloom or scaling: a timing filter is exact"},
		{"filters:\n  - {name: a, error_rate: 0.1, kind: timing}\n", ":2: filters[0].error_rate: 0.1: is for the kind bloom or scaling"},
		{"filters:\n  - name: a\n    kind: timing\n    on_full: warn\n", `:4: filters[0].on_full: "warn": is for the kind bloom or scaling`},
		{"filters:\n  - {name: a, expire: 1h}\n", ":2: filters[0].expire: 1h0m0s: is for the kind timing, want 0s: items of a bloom filter do not expire"},
		{"filters:\n  - {name: a, store: mysql}\n", `:2: filters[0].store: "mysql": is for the kind exact: other filters are in the store of the daemon`},
		{"filters:\n  - {name: a, capasity: 1}\n", ":2: filters[0].capasity: unknown key; did you mean capacity?"},
		{"filters:\n  - {name: a, kind: cuckoo, capacity: many}\n", `:2: filters[0].capacity: "many": want a whole number`},
		{"redis:\n  zzzzzz: 1\n", ":2: redis.zzzzzz: unknown key; known: addrs, username, password_file, db, tls, tls_ca_file, tls_cert_file, tls_key_file, tls_server_name, master_name, in_doubt, durability, replicas, mirror_bytes"},
		{"filters:\n  - {name: a}\n  - {nam: b}\n", ":3: filters[1].nam: unknown key; did you mean name?"},
		{"listen: a:1\n\nlisten: b:1\n", ":3: listen: key appears twice, first in line 1"},
		{"tls: {cert_file: a, cert_file: b}\n", ":1: tls.cert_file: key appears twice"},
		{"redis: {db: x}\n", `:1: redis.db: "x": want a whole number`},
		{"redis: {db: 1.5}\n", `redis.db: "1.5": want a whole number`},
		{"redis: {tls: yes}\n", `redis.tls: "yes": want true or false`},
		{"uri_num_scale: -1\n", `uri_num_scale: "-1": want a whole number`},
		{"uri_num_scale: 1e30\n", `uri_num_scale: "1e30": want a whole number`},
		{"uri_num_scale: [1]\n", "uri_num_scale: a list: want a whole number"},
		{"accept_error_rate: .nan\n", `accept_error_rate: ".nan": want a number`},
		{"accept_error_rate: NaN\n", `accept_error_rate: "NaN": want a number`},
		{"limits: {body_timeout: 5}\n", `limits.body_timeout: "5": want a time with its unit`},
		{"limits: {body_bytes: 5MB}\n", `limits.body_bytes: "5MB": want bytes, or a number with KiB`},
		{"listen: 8000\n", ":1: listen: a number: want a text"},
		{"listen: true\n", ":1: listen: a true or false: want a text"},
		{"listen:\n", ":1: listen: no value: want a text"},
		{"listen: {a: b}\n", ":1: listen: keys and values: want a text"},
		{"listen: !!binary aGk=\n", ":1: listen: a text: want a text"},
		{"filters:\n", ":1: filters: no value: want a list"},
		{"filters: {name: a}\n", ":1: filters: keys and values: want a list"},
		{"redis: {addrs: a:1}\n", ":1: redis.addrs: a text: want a list"},
		{"redis: {addrs: [1]}\n", ":1: redis.addrs[0]: a number: want a text"},
		{"redis: 5\n", ":1: redis: a number: want keys and values: addrs,"},
		{"- a\n", ":1: a list: want keys and values: listen,"},
		{"listen: a:1\n---\nlisten: b:1\n", ":2: second document: want one"},
		{"listen: \"a\n", ": not YAML: "},
		{"listen: a\n  b: c\n", ":2: not YAML: "},
		{"listen: \xff\n", ": not YAML: "},
		{"<<: {listen: a:1}\n", ":1: <<: unknown key"},
		{"[a, b]: 1\n", ":1: "},
		{"filters: &f [*f]\n", ":1: filters[0]: a list: want keys and values"},
		{"listen: a:1 # 100%d\n%s: 1\n", "not YAML"},
		{"'100%d': 1\n", ":1: 100%d: unknown key"},
	} {
		path := writeFile(t, "u%d.yaml", test.text)
		_, err := Load(path, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), path+":") {
			t.Errorf("Load of %q:\ngot  %v\nwant %s%s", test.text, err, path, test.want)
		}
	}
}

func TestLoadReportsAllFaults(t *testing.T) {
	_, err := Load(writeFile(t, "u.yaml", "listen: 1\nstorage: x\nlimits: {items: x}\n"), nil)
	for _, want := range []string{"listen: a number", "storage: unknown", "limits.items:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
	_, err = Load("", []string{"URIFILTER_STOER=redis", "URIFILTER_LIMITS_ITEMS="})
	for _, want := range []string{"URIFILTER_STOER: unknown", "URIFILTER_LIMITS_ITEMS: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
}

func TestLoadEnvironmentFaults(t *testing.T) {
	for _, test := range []struct{ variable, want string }{
		{"URIFILTER_STOER=redis", "URIFILTER_STOER: unknown variable; did you mean URIFILTER_STORE?"},
		{"URIFILTER_REDIS=x", "URIFILTER_REDIS: unknown variable"},
		{"URIFILTER_limits_items=5", "URIFILTER_limits_items: unknown variable; did you mean URIFILTER_LIMITS_ITEMS?"},
		{"URIFILTER_LIMITS_ITEMS=many", `URIFILTER_LIMITS_ITEMS: "many": want a whole number`},
		{"URIFILTER_LIMITS_ITEMS=", `URIFILTER_LIMITS_ITEMS: "": want a whole number`},
		{"URIFILTER_LIMITS_ITEM_BYTES=5kB", `URIFILTER_LIMITS_ITEM_BYTES: "5kB": want bytes`},
		{"URIFILTER_SHUTDOWN_TIMEOUT=5", `URIFILTER_SHUTDOWN_TIMEOUT: "5": want a time`},
		{"URIFILTER_REDIS_TLS=1", `URIFILTER_REDIS_TLS: "1": want true or false`},
		{"URI_NUM_SCALE=x", `URI_NUM_SCALE: "x": want a whole number`},
		{"ACCEPT_ERROR_RATE=x", `ACCEPT_ERROR_RATE: "x": want a number`},
		{"URIFILTER_FILTERS=uri:bloom:5", "URIFILTER_FILTERS:1: a text: want a list"},
		{"URIFILTER_FILTERS=", "URIFILTER_FILTERS: no value: want a list"},
		{"URIFILTER_FILTERS=[{nam: a}]", "URIFILTER_FILTERS:1: [0].nam: unknown key; did you mean name?"},
	} {
		_, err := Load("", []string{test.variable})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", test.variable, err, test.want)
		}
	}
}

func TestOldNamesAreOverridden(t *testing.T) {
	for _, env := range [][]string{
		{"URI_NUM_SCALE=5", "URIFILTER_URI_NUM_SCALE=6"},
		{"URIFILTER_URI_NUM_SCALE=6", "URI_NUM_SCALE=5"},
	} {
		if c, err := Load("", env); err != nil || c.URINumScale != 6 {
			t.Errorf("%v: capacity %d, %v; want that of the new name", env, c.URINumScale, err)
		}
	}
}

func TestFiltersVariableTakesJSON(t *testing.T) {
	c, err := Load("", []string{`URIFILTER_FILTERS=[{"id":9,"name":"a","capacity":5,"error_rate":0.01}]`})
	want := []Filter{{ID: 9, Name: "a", Params: Bloom{Capacity: 5, ErrorRate: 0.01}}}
	if err != nil || !reflect.DeepEqual(c.Filters, want) {
		t.Errorf("got %+v, %v; want %+v", c.Filters, err, want)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Example)
	f.Add([]byte("filters: &a [*a]\n"))
	f.Add([]byte("a: &a [*a, *a]\nredis: *a\n"))
	f.Add([]byte("? [a]\n: {b: c}\n"))
	f.Add([]byte("!!map"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := Default()
		if strict.Decode("f", data, &c) != nil {
			return
		}
		text, err := c.YAML()
		if err != nil {
			t.Fatalf("settings that were read cannot be shown: %v", err)
		}
		var back Config
		if err := strict.Decode("shown", text, &back); err != nil {
			t.Fatalf("what is shown cannot be read: %v\n%s", err, text)
		}
	})
}
