// Applies a JSON list of Kubernetes objects from standard input and waits for them as Flux's kustomize-controller does: with the same
// library and field manager, and with its default of giving up as soon as an object has failed.
// Arguments: the kubeconfig and the timeout of the wait. Writes what was changed and the error of the wait as JSON.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// A fifth of kustomize-controller's interval, so that a test measures our status and not the interval.
const interval = time.Second

type answer struct {
	Changes map[string]ssa.Action `json:"changes"`
	Error   string                `json:"error"`
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check(err)
	// No limit of requests: the wait knows a request that meets the end of its time by its DeadlineExceeded, and takes the limiter's own
	// error for an error of the object.
	config.QPS = -1
	timeout, err := time.ParseDuration(os.Args[2])
	check(err)
	manager, err := managerFor(config)
	check(err)
	objects := []*unstructured.Unstructured{}
	check(json.NewDecoder(os.Stdin).Decode(&objects))

	changes, err := manager.ApplyAll(context.Background(), objects, ssa.DefaultApplyOptions())
	check(err)
	waited := manager.WaitForSet(changes.ToObjMetadataSet(), ssa.WaitOptions{Interval: interval, Timeout: timeout, FailFast: true})
	result := answer{Changes: changes.ToMap()}
	if waited != nil {
		result.Error = waited.Error()
	}
	check(json.NewEncoder(os.Stdout).Encode(result))
}

func managerFor(config *rest.Config) (*ssa.ResourceManager, error) {
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, connection)
	if err != nil {
		return nil, err
	}
	reader, err := client.New(config, client.Options{Mapper: mapper})
	if err != nil {
		return nil, err
	}
	poller := polling.NewStatusPoller(reader, mapper, polling.Options{})
	return ssa.NewResourceManager(reader, poller, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"}), nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
