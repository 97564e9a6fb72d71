{{/* Names, labels and the image. */}}

{{- define "spoolrack.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 50 characters, so that a suffix and a StatefulSet's hash fit into a label. */}}
{{- define "spoolrack.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "spoolrack.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The labels by which pods are chosen. Call with (dict "root" $ "component" "server"). */}}
{{- define "spoolrack.selectorLabels" -}}
app.kubernetes.io/name: {{ include "spoolrack.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Those of pods: without versions, which would start every pod again for nothing. */}}
{{- define "spoolrack.podLabels" -}}
{{ include "spoolrack.selectorLabels" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "spoolrack.labels" -}}
{{ include "spoolrack.podLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "spoolrack.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "spoolrack.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "spoolrack.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The name by which clients in the cluster reach the server. */}}
{{- define "spoolrack.host" -}}
{{- printf "%s.%s.svc" (include "spoolrack.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "spoolrack.claimName" -}}
{{- default (include "spoolrack.fullname" .) .Values.persistence.existingClaim -}}
{{- end -}}

{{- define "spoolrack.hasTls" -}}
{{- if or .Values.tls.secretName .Values.tls.certManager.enabled -}}true{{- end -}}
{{- end -}}

{{- define "spoolrack.tlsSecretName" -}}
{{- default (printf "%s-tls" (include "spoolrack.fullname" .)) .Values.tls.secretName -}}
{{- end -}}

{{/* The secret with the tokens and permissions files, and the keys of each; "" if there is none. */}}
{{- define "spoolrack.accessSecretName" -}}
{{- if .Values.access.existingSecret.name -}}
{{- .Values.access.existingSecret.name -}}
{{- else if or .Values.access.tokens .Values.access.permissions -}}
{{- printf "%s-access" (include "spoolrack.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "spoolrack.tokensKey" -}}
{{- if .Values.access.existingSecret.name -}}
{{- .Values.access.existingSecret.tokensKey -}}
{{- else if .Values.access.tokens -}}tokens{{- end -}}
{{- end -}}

{{- define "spoolrack.permissionsKey" -}}
{{- if .Values.access.existingSecret.name -}}
{{- .Values.access.existingSecret.permissionsKey -}}
{{- else if .Values.access.permissions -}}permissions{{- end -}}
{{- end -}}
