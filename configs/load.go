package configs

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs/strict"
)

// source says where the settings of the daemon come from. The old names are from the time
// before it had a file.
func source() strict.Source {
	return strict.Source{
		Prefix: "URIFILTER_", Foreign: foreign,
		Old: map[string]string{"URI_NUM_SCALE": "uri_num_scale", "ACCEPT_ERROR_RATE": "accept_error_rate"},
	}
}

// Load returns the defaults, overridden by the YAML file at path ("": none),
// overridden by the variables of env, each "NAME=value" as os.Environ gives them.
// The error joins all faults and names file, line and key, or the variable. Load
// does not validate: flags come between it and Validate.
func Load(path string, env []string) (Config, error) {
	c, err := load(path, env)
	if err != nil {
		return Config{}, err
	}
	return c, nil
}

// Check is Load followed by Validate. It joins the faults of both, so that all of them show
// at once: keys that cannot be read count as left out.
func Check(path string, env []string) (Config, error) {
	c, err := load(path, env)
	if err = errors.Join(err, c.Validate()); err != nil {
		return Config{}, err
	}
	return c, nil
}

// load returns what can be read, even if some of it cannot.
func load(path string, env []string) (Config, error) {
	c := Default()
	err := source().Read(path, env, &c)
	return c, err
}

// Parse is Load for the text of a file, which need not be on this machine, without an
// environment.
func Parse(file string, data []byte) (Config, error) {
	c := Default()
	if err := strict.Decode(file, data, &c); err != nil {
		return Config{}, err
	}
	return c, nil
}

// foreign reports whether a variable with our prefix is not a setting of the daemon: those
// of the command line, of the clients, of the toolkit and of the tests.
func foreign(name string) bool {
	switch name {
	case "URIFILTER_CONFIG", "URIFILTER_URL", "URIFILTER_TOKEN", "URIFILTER_TOKEN_FILE", "URIFILTER_FILTER", "URIFILTER_TYPE", "URIFILTER_NO_SKIP",
		"URIFILTER_RESP", // where the command line finds resp.listen
		"URIFILTER_HOSTS", "URIFILTER_INVENTORY", "URIFILTER_OUTPUT",
		"URIFILTER_TIMEOUT", "URIFILTER_PATIENCE", "URIFILTER_IN_DOUBT", "URIFILTER_CA_FILE",
		"URIFILTER_BATCH_ITEMS", "URIFILTER_BATCH_BYTES", // of the Python client
		"URIFILTER_SSH_CONFIG", "URIFILTER_SSH_PASSWORD", "URIFILTER_BASTION_PASSWORD", "URIFILTER_SUDO_PASSWORD", "URIFILTER_KEY_PASSPHRASE":
		return true
	}
	return strings.HasPrefix(name, "URIFILTER_TEST_")
}

// CheckKeys checks whether n, the part of a file under key, can serve as settings of the
// daemon: whether it has their keys, with values of their types. Validate judges what the
// values mean together.
func CheckKeys(file, key string, n *yaml.Node) error {
	c := Default()
	return strict.DecodeNode(file, key, n, &c)
}
