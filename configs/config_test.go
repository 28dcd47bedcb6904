package configs

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs/strict"
)

func TestExampleIsDefault(t *testing.T) {
	var c Config // not Default: the example must say everything itself
	if err := strict.Decode("urifilter.yaml", Example, &c); err != nil {
		t.Fatal(err)
	}
	if want := Default(); !reflect.DeepEqual(c, want) {
		t.Errorf("example differs from Default:\ngot  %+v\nwant %+v", c, want)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("example is not valid: %v", err)
	}
}

// TestExampleIsWhole requires every field in the example, and a comment at every key
// of the top level.
func TestExampleIsWhole(t *testing.T) {
	root, err := strict.Parse("urifilter.yaml", Example)
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range missingKeys(root, reflect.TypeFor[Config](), "") {
		t.Errorf("example lacks %s", missing)
	}
	cut := regexp.MustCompile(`(?m)^  item_bytes: .*\n|^    capacity: .*\n`).ReplaceAll(Example, nil)
	root, err = strict.Parse("cut", cut)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(missingKeys(root, reflect.TypeFor[Config](), ""), " "); got != "filters[].capacity limits.item_bytes" {
		t.Errorf("missing in a cut example: got %q", got)
	}
}

// missingKeys lists the keys of t to which n gives no value; in a list, one element
// must have them all.
func missingKeys(n *yaml.Node, t reflect.Type, path string) []string {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		var least []string
		for i, item := range n.Content {
			if m := missingKeys(item, t.Elem(), path+"[]"); i == 0 || len(m) < len(least) {
				least = m
			}
		}
		return least
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	if t == reflect.TypeFor[Filter]() {
		t = allOfFilter()
	}
	values := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		values[n.Content[i].Value] = n.Content[i+1]
	}
	var missing []string
	for _, field := range strict.Keyed(t) {
		key := field.Tag.Get("yaml")
		if value, ok := values[key]; !ok {
			missing = append(missing, strict.Join(path, key))
		} else {
			missing = append(missing, missingKeys(value, field.Type, strict.Join(path, key))...)
		}
	}
	return missing
}

// allOfFilter returns a struct type with the keys of filters of all kinds.
func allOfFilter() reflect.Type {
	var fields []reflect.StructField
	for i, key := range (Filter{}).MemberKeys() {
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("F", i), Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`yaml:"` + key + `"`)})
	}
	return reflect.StructOf(fields)
}

// TestEveryFieldSettable walks the struct: each field has a key, and a type that the
// file and the environment can set.
func TestEveryFieldSettable(t *testing.T) {
	text := map[reflect.Kind]string{reflect.String: "some", reflect.Bool: "true", reflect.Float64: "0.25"}
	c := Default()
	for i, leaf := range strict.Leaves(reflect.ValueOf(&c).Elem()) {
		key, v := leaf.Key, leaf.Value
		value := "3"
		switch {
		case strings.HasSuffix(key, "timeout") || key == "writeback.interval":
			value = "3h"
		case key == "redis.addrs":
			value = "a:1, b:2"
		case key == "filters":
			value = `[{name: "only"}]`
		case text[v.Kind()] != "":
			value = text[v.Kind()]
		}
		got, err := Load("", []string{source().Variable(key) + "=" + value})
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		changed := 0
		d := Default()
		after := strict.Leaves(reflect.ValueOf(&got).Elem())
		for k, before := range strict.Leaves(reflect.ValueOf(&d).Elem()) {
			if !reflect.DeepEqual(before.Value.Interface(), after[k].Value.Interface()) {
				changed++
			}
		}
		if changed == 0 && !reflect.DeepEqual(v.Interface(), after[i].Value.Interface()) || changed > 1 {
			t.Errorf("%s=%s changed %d settings", source().Variable(key), value, changed)
		}
	}
}

func TestShow(t *testing.T) {
	c := Default()
	c.MongoDB.URI = "mongodb://writer:hunter2secret@db1:27017,db2:27017/?replicaSet=rs0"
	c.Limits.BodyBytes = 3*MiB + 1
	c.Listen = "[::1]:9000"
	c.Redis.Username = "123"
	data, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hunter2") {
		t.Errorf("password is shown:\n%s", data)
	}
	var back Config
	if err := strict.Decode("shown", data, &back); err != nil {
		t.Fatalf("what is shown cannot be read: %v\n%s", err, data)
	}
	c.MongoDB.URI = "mongodb://writer:xxxxx@db1:27017,db2:27017/?replicaSet=rs0"
	if !reflect.DeepEqual(back, c) {
		t.Errorf("read back:\ngot  %+v\nwant %+v", back, c)
	}
}

func TestSpecs(t *testing.T) {
	c := Default()
	c.URINumScale, c.AcceptErrorRate = 500, 0.01
	c.Filters = []Filter{
		{Name: "bare"},
		{ID: 7, Name: "full", Kind: "bloom", Params: Bloom{Capacity: 9, ErrorRate: 0.5, OnFull: "reject"}},
	}
	want := []Filter{
		{Name: "bare", Kind: "bloom", Params: Bloom{Capacity: 500, ErrorRate: 0.01, OnFull: "grow"}},
		c.Filters[1],
	}
	if got := c.Specs(); !reflect.DeepEqual(got, want) {
		t.Errorf("Specs:\ngot  %+v\nwant %+v", got, want)
	}
	if c.Filters[0].Kind != "" {
		t.Error("Specs changed the settings themselves")
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "65536": 64 * KiB, "64KiB": 64 * KiB, "64 MiB": 64 * MiB, "3GiB": 3 * GiB, "1TiB": TiB,
		"9223372036854775807": 1<<63 - 1, "8388607TiB": 8388607 * TiB,
	} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
		if back, err := ParseSize(got.String()); err != nil || back != got {
			t.Errorf("%d shows as %q, which reads as %d, %v", got, got.String(), back, err)
		}
	}
	for _, text := range []string{"", "MiB", "64MB", "64M", "64mib", "-1", "1.5MiB", "1e3", "8388608TiB", "9223372036854775808", "+1", "1_000", " 1"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

// All programs call a daemon on their own machine at this URL.
func TestURL(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Listen = ":9000"
	if got := c.URL(); got != "http://127.0.0.1:9000" {
		t.Error(got)
	}
	c.TLS.CertFile = "/etc/c.pem"
	if got := c.URL(); got != "https://127.0.0.1:9000" {
		t.Errorf("with a certificate: %s", got)
	}
}
