{{/*
Several hosts: pods with one root. Refuses a claim in the cluster that the nodes can't mount at once. Without a cluster
nothing is looked up, and each server refuses to start on another file system than CephFS.
*/}}
{{- define "spoolrack.checkHosts" -}}
{{- if eq .Values.hosts "several" -}}
{{- $name := include "spoolrack.claimName" . -}}
{{- $claim := lookup "v1" "PersistentVolumeClaim" .Release.Namespace $name -}}
{{- if $claim -}}
{{- if not (has "ReadWriteMany" $claim.spec.accessModes) -}}
{{- fail (printf "hosts: several needs a ReadWriteMany volume, and the claim %s is %s, which can't be changed in place. Install another release, and move the queues there by export and import, as docs/how-to/import-export.md tells" $name (join ", " $claim.spec.accessModes)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
